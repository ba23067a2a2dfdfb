"""What an audit was asked for, what is expected of every node, and what the probe needs to know of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from envmgr.catalog.site import Site
from envmgr.modules.spec import ModuleSpec
from envmgr.probe.model import ProbePlan
from envmgr.publish.record import GenerationRecord

Via = Literal["ssh", "slurm", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """What to audit, as it was asked for. `nodes` is a node set, None for all groups of the site; `via` None is the site's own way.

    `reference` is one of the nodes that is right where nodes differ, empty for none; `user` the ordinary user instead of the site's. Empty
    `contexts` are all of `via`, empty `modules` a sample, empty `checks` all. With `deep`, files of installs are hashed on the nodes. With
    `baseline`, a file that an earlier audit wrote to `save_baseline`, nodes are right that have what they had then; with either, or without
    `drawn`, samples are the same each day. Times are wall-clock seconds, None for the site's.
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


@dataclass(frozen=True, slots=True)
class PublishedGeneration:
    """What is expected of every node: the published generation. `since` is when it became current, epoch seconds."""

    record: GenerationRecord
    record_sha256: str
    specs: Mapping[str, ModuleSpec]
    kept: tuple[int, ...]
    since: float


@dataclass(frozen=True, slots=True)
class ExpectedInstall:
    """The install of `entry` at `root`, by its manifest.

    `program` is the first executable that the entry puts into PATH, `file` what is looked at: that, or a file of it where
    it has none. Both are relative to `root`, and empty where the manifest could not be read. `sums` is path -> sha256.
    """

    entry: str
    root: str
    program: str = ""
    file: str = ""
    sums: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan(ProbePlan):
    """What an audit's probe needs to know besides; `number` is the published generation's, None where nothing is known of one.

    `samples` are the entries looked at closely; `loads` maps an entry to the environment that loading it gives here; `roots`
    maps it to its install's folder. `installs` are those of all published entries. `peers` maps names of the asked nodes, of many a
    part, to their addresses on this host. `day`, a number, draws samples that are others tomorrow.
    """

    site: Site
    request: AuditRequest = AuditRequest()
    number: int | None = None
    samples: tuple[str, ...] = ()
    loads: Mapping[str, str] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)
    installs: tuple[ExpectedInstall, ...] = ()
    peers: Mapping[str, str] = field(default_factory=dict)
    day: int = 0

    @property
    def deep(self) -> bool:
        """Whether more of everything is looked at."""
        return self.request.deep

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that other tools made, and that are loaded whatever is drawn."""
        return self.request.modules if self.alone else ()

    @property
    def generation(self) -> str:
        """The published generation's folder, empty where nothing is known to be published."""
        return f"{self.prefix}/generations/{self.number:04d}" if self.number is not None else ""
