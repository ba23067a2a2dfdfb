"""What an audit is made of: what is asked, what nodes answered, what was expected, and the shape of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from envmgr.catalog.site import Site
from envmgr.finding import Finding
from envmgr.modules.spec import ModuleSpec
from envmgr.probe.model import Facts, Fleet, ProbePart, ProbePlan, ShellAccount, ShellContext
from envmgr.publish.record import GenerationRecord


@dataclass(frozen=True, slots=True)
class PublishedGeneration:
    """What is expected of every node: the published generation. `since` is when it became current, epoch seconds."""

    record: GenerationRecord
    record_sha256: str
    specs: Mapping[str, ModuleSpec]
    kept: tuple[int, ...]
    since: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that checks judge.

    `ways` is `ssh`, `slurm` (jobs that inherit), `slurm-none` -> answers; `asked` names what was asked in each. `look` is
    the short look over ssh before jobs are sent, where ssh was not asked for more. `here` is this host, asked without a
    connection, where it is a login node of the site: jobs inherit from its shells.

    `published` is None where the controller could not read it. `slurm` is node -> (state, reason) as Slurm sees it;
    `slurm_broken` says why it could not be asked. `writable` are the nodes of the site's `mount.writable`, `groups` its node
    groups with their nodes. `addresses` are those that a node's name has here; `unmunge` decodes a credential and says what
    is wrong with it.
    """

    site: Site
    plan: ProbePlan
    nodes: tuple[str, ...]
    published: PublishedGeneration | None
    ways: Mapping[str, Fleet]
    asked: tuple[tuple[ShellContext, ShellAccount, str], ...] = ()
    look: Fleet | None = None
    here: Fleet | None = None
    controller: Facts = field(default_factory=dict)
    slurm: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    slurm_broken: str = ""
    writable: frozenset[str] | None = None
    addresses: Callable[[str], frozenset[str]] = lambda _node: frozenset()
    unmunge: Callable[[str], str] = lambda _credential: ""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def fleet(self) -> Fleet:
        """The answers that hold everything but the contexts of jobs: over ssh, or of the first kind of job without ssh."""
        return next(iter(self.ways.values()))

    @property
    def mounts(self) -> Fleet:
        """The answers that say how each node has the prefix, before anything was risked."""
        return self.look or self.fleet

    def contexts(self) -> Iterator[tuple[ShellContext, ShellAccount, Fleet]]:
        """Every context and account that was asked for, with the answers of nodes whose prefix answers."""
        for context, account, way in self.asked:
            yield context, account, self.shells if way == "ssh" else self.ways[way].sound

    @property
    def shells(self) -> Fleet:
        """Sound nodes, and this host where it is a login node: whose shells are compared."""
        fleet = self.fleet.sound
        if self.here is None:
            return fleet
        return replace(fleet, groups=(*fleet.groups, *self.here.sound.groups))


class Check(ProbePart, Protocol):
    """A module under `checks/`. Its docstring is what `audit --explain` prints."""

    __doc__: str | None

    def judge(self, evidence: Evidence) -> Iterable[Finding]:
        """What is wrong. Pure: no I/O."""
