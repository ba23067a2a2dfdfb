"""The request of an audit, the published state that every node is compared with, and the plan of the probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from envmgr.catalog.site import Site
from envmgr.modules.spec import ModuleSpec, Outside
from envmgr.probe.model import ProbePlan

if TYPE_CHECKING:
    from envmgr.publish.records import GenerationRecord

Via = Literal["ssh", "slurm", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """The options of one audit, as the user gave them.

    `nodes` is a node set; None means all groups of the site. `via` None means the site's own way. `reference` is the
    node that is right where nodes differ; empty for none. `user` is used instead of the site's ordinary user. Empty
    `contexts` means all of `via`, empty `modules` a sample, and empty `checks` all checks. With `deep`, all modules
    of other tools are loaded. `baseline` is a file that an earlier audit wrote to `save_baseline`; nodes are right if they
    have what they had then. With one of these two, or without `drawn`, samples are the same each day. Times are
    wall-clock seconds; None means the site's. With `dry_run` no file is written; with `verbose` the result shows all of itself. With `here`, only this host is asked,
    in the shells of the user who asks. With `generation`, the newest candidate, shells ask for that.
    """

    nodes: str | None = None
    via: Via | None = None
    contexts: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    deep: bool = False
    reference: str = ""
    user: str | None = None
    baseline: Path | None = None
    save_baseline: Path | None = None
    node_timeout: float | None = None
    deadline: float | None = None
    drawn: bool = True
    dry_run: bool = False
    verbose: bool = False
    here: bool = False
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class ExpectedInstall:
    """The install of `entry` at `root`. `program`, `file`, `size` and `checked` are as its publish recorded them (`Expected`)."""

    entry: str
    root: str
    program: str = ""
    file: str = ""
    size: int = 0
    checked: bool = False


@dataclass(frozen=True, slots=True)
class PublishedGeneration:
    """The published generation, which every node should resolve, or a candidate for shells that ask for it. `link` of the
    prefix names it; `since` is when that began, in epoch seconds. `installs` are those of all entries.
    """

    record: GenerationRecord
    record_sha256: str
    specs: Mapping[str, ModuleSpec]
    kept: tuple[int, ...]
    since: float
    link: Literal["current", "candidate"] = "current"
    installs: tuple[ExpectedInstall, ...] = ()

    @property
    def outside(self) -> dict[str, Outside]:
        """The trees outside of the store that it leads to, by entry."""
        return {name: spec.outside for name, spec in self.specs.items() if spec.outside is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan(ProbePlan):
    """The plan of an audit's probe. `number` is the published generation's; None if none is known.

    `samples` are the entries that the audit looks at closely. `loads` maps each of them to the environment that loading
    it gives here, and `roots` maps it to its install's folder. `installs` are those of all published entries.
    `day` is a number that draws the samples, so that tomorrow's differ. `outside` is as in the published generation. `salt` is for digests of what nobody
    may read: those of two audits cannot be compared. Many nodes tell what they have `by_digest`, and few of them the rest.
    """

    site: Site
    request: AuditRequest = AuditRequest()
    number: int | None = None
    samples: tuple[str, ...] = ()
    loads: Mapping[str, str] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)
    installs: tuple[ExpectedInstall, ...] = ()
    outside: Mapping[str, Outside] = field(default_factory=dict)
    day: int = 0
    salt: str = ""
    by_digest: bool = False

    def share(self, parts: int) -> int:
        """Return a part of the seconds that all reads of the prefix may take: other checks read it, too."""
        return max(2, self.seconds // parts)

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that other tools made, and that are loaded whatever is drawn."""
        return self.request.modules if self.alone else ()

    @property
    def first(self) -> str:
        """Return the sample that every context loads; empty for none."""
        return next(iter(self.samples), "")

    @property
    def generation(self) -> str:
        """The published generation's folder, empty where nothing is known to be published."""
        return f"{self.prefix}/generations/{self.number:04d}" if self.number is not None else ""


@dataclass(frozen=True, slots=True)
class Unread:
    """The reason why this host has no published generation: a sentence, and `prefix-away` or `no-published-generation`."""

    reference: str
    text: str
