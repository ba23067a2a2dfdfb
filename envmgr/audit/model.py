"""What an audit is made of: what is asked, what nodes answered, what was expected, and the shape of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from envmgr.finding import Finding
from envmgr.generation import GenerationRecord
from envmgr.modulespec import ModuleSpec
from envmgr.nodes import Reply
from envmgr.site import Site

Way = Literal["ssh", "slurm"]
"""How a node was asked: over ssh, or by real batch jobs."""

Stage = Literal["node", "prefix", "context", "login"]
"""Where a part of the probe runs.

`node`: first, as the connecting user; never touches the prefix, which may hang. `prefix`: once the prefix has answered.
`context`: inside the shell of every context. `login`: inside the ordinary user's login bash, once.
"""

Account = Literal["root", "user"]


@dataclass(frozen=True, slots=True)
class ShellContext:
    """A way in which a user reaches software. `export` is what a batch job inherits; empty for ssh."""

    name: str
    way: Way
    shell: Literal["bash", "bash-login", "sh", "csh"]
    what: str
    export: Literal["", "ALL", "NONE"] = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the probe is made from. `contexts` and `accounts` are those of the script at hand.

    `samples` are the entries looked at closely; `loads` maps an entry to the environment that loading it gives here.
    `init` is Lmod's folder of start-up files on the controller; `roots` maps an entry to its install's folder.
    """

    site: Site
    user: str
    number: int | None
    samples: tuple[str, ...]
    loads: Mapping[str, str]
    init: str
    contexts: tuple[ShellContext, ...] = ()
    accounts: tuple[Account, ...] = ()
    roots: Mapping[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        return str(self.site.prefix)

    @property
    def generation(self) -> str:
        """The published generation's folder, empty where nothing is known to be published."""
        return f"{self.prefix}/generations/{self.number:04d}" if self.number is not None else ""


Facts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that gave one and the same answer."""

    facts: Facts
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """All that nodes said one way. `own` holds what differs between healthy nodes (name, clock), never compared."""

    groups: tuple[Group, ...]
    own: Mapping[str, Facts]
    replies: Mapping[str, Reply]
    missing: tuple[Reply, ...]

    @property
    def sound(self) -> Fleet:
        """Without nodes whose prefix does not answer: what else is wrong there has that one cause."""
        return self.only(
            lambda facts: facts.get("gate") == "ok" and not facts.get("prefix.end", "").startswith("no end")
        )

    def only(self, wanted: Callable[[Facts], bool]) -> Fleet:
        return Fleet(tuple(g for g in self.groups if wanted(g.facts)), self.own, self.replies, self.missing)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(node for group in self.groups for node in group.nodes)

    def by_value(self, key: str, *, default: str | None = None) -> dict[str, tuple[str, ...]]:
        """value -> nodes, the commonest first. Nodes without the fact are left out unless `default` is given."""
        return self.by(lambda facts: facts.get(key, default))

    def by(self, value: Callable[[Facts], str | None]) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for group in self.groups:
            of_group = value(group.facts)
            if of_group is not None:
                found.setdefault(of_group, []).extend(group.nodes)
        ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
        return {key: tuple(nodes) for key, nodes in ordered}


@dataclass(frozen=True, slots=True)
class Published:
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
    plan: Plan
    nodes: tuple[str, ...]
    published: Published | None
    ways: Mapping[str, Fleet]
    asked: tuple[tuple[ShellContext, Account, str], ...] = ()
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

    def contexts(self) -> Iterator[tuple[ShellContext, Account, Fleet]]:
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


class Check(Protocol):
    """A module under `checks/`. Its docstring is what `audit --explain` prints."""

    __doc__: str | None
    __name__: str

    def probe(self, plan: Plan) -> Mapping[Stage, str]:
        """POSIX shell text by stage; it tells facts by `put KEY VALUE`, `own KEY VALUE` and `lines KEY`."""

    def judge(self, evidence: Evidence) -> Iterable[Finding]:
        """What is wrong. Pure: no I/O."""
