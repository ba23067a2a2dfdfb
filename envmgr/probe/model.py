"""The parts of a probe: the questions to a node, the contexts to ask in, and the answers of nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, TypeVar

from envmgr.catalog.names import nearest
from envmgr.errors import InputError
from envmgr.nodes.envelope import Reply
from envmgr.wording import did_you_mean

Way = Literal["ssh", "slurm"]
"""The way to a node: over ssh, or by real batch jobs."""

ProbeStage = Literal["node", "prefix", "context", "login", "gpus", "job"]
"""The place where a part of the probe runs.

`node`: first, as the connecting user; never touches the prefix, which may hang. `prefix`: once the prefix has answered.
`context`: inside the shell of every context. `login`: inside the ordinary user's login bash, once. What an audit asks in
jobs of its own: `gpus` in those that ask for a GPU, on nodes that hide theirs, and `job` in one that is submitted as users do.
"""


ShellAccount = Literal["root", "user"]


@dataclass(frozen=True, slots=True)
class ShellContext:
    """A way in which a user reaches software.

    `export` is what a batch job inherits; empty for ssh. `accounts` are those whose shells of this kind are looked at.
    With `step`, the shell is a task that srun starts in the job.
    """

    name: str
    way: Way
    shell: Literal["bash", "bash-login", "bash-interactive", "sh", "wrap", "csh", "zsh"]
    export: Literal["", "ALL", "NONE"] = ""
    accounts: tuple[ShellAccount, ...] = ("root", "user")
    step: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """The values that every probe needs: the prefix, the ordinary user (empty where none is looked at), the build user.

    `shells` are asked on every node that has them; others, but for bash and csh, where they are the user's.
    `seconds` is what the parts may take together once the prefix has answered; see `part_seconds`. `contexts` and
    `accounts` are those of the script at hand. `init` is Lmod's folder of start-up files on the controller, for
    contexts that source one. `alone`: nothing is published, and a node need not have the prefix. `link` of the prefix
    names the generation that shells shall have.
    """

    prefix: str
    user: str
    build_user: str
    seconds: int
    contexts: tuple[ShellContext, ...] = ()
    accounts: tuple[ShellAccount, ...] = ()
    init: str = ""
    shells: tuple[str, ...] = ()
    alone: bool = False
    link: Literal["current", "candidate"] = "current"


@dataclass(frozen=True, slots=True)
class ProbePart:
    """A part of a probe: POSIX shell text by stage, which reports facts by `put`, `own` and `lines`.

    Its facts begin with `name` and a dot. It can use `$prefix`, `$user`, `$build_user`, and the functions of
    shell.library.sh. The fact `looked_key(name, stage)` says that it ran to its end.
    """

    name: str
    texts: Mapping[ProbeStage, str]


Facts = Mapping[str, str]
_Value = TypeVar("_Value", bound=Hashable)
_Of = TypeVar("_Of")


def grouped(pairs: Iterable[tuple[_Value, _Of]]) -> dict[_Value, list[_Of]]:
    """Return each first of a pair -> all that comes with it, both in the order of the pairs."""
    found: dict[_Value, list[_Of]] = {}
    for value, of in pairs:
        found.setdefault(value, []).append(of)
    return found


def number_in(facts: Facts, key: str) -> int | None:
    """Return a fact that is a whole number; None where it is missing, or something else."""
    text = facts.get(key, "")
    return int(text) if text.removeprefix("-").isdecimal() else None


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
        """Return the answers without nodes whose prefix does not answer: that explains everything else that is wrong
        there.
        """
        return self.only(lambda of: of.get("gate") == "ok" and not of.get("prefix.end", "").startswith("no end"))

    def only(self, wanted: Callable[[Facts], bool]) -> Fleet:
        return replace(self, groups=tuple(g for g in self.groups if wanted(g.facts)))

    def among(self, nodes: Collection[str]) -> Fleet:
        """Return the answers of these nodes."""
        groups = (Group(group.facts, tuple(node for node in group.nodes if node in nodes)) for group in self.groups)
        missing = tuple(reply for reply in self.missing if reply.node in nodes)
        return replace(self, groups=tuple(group for group in groups if group.nodes), missing=missing)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.told)

    @property
    def told(self) -> dict[str, Facts]:
        """Return node -> what it answered."""
        return {node: group.facts for group in self.groups for node in group.nodes}

    def names(self, beginning: str) -> list[str]:
        """Return what follows `beginning` in the facts that begin so, sorted."""
        found = {fact for group in self.groups for fact in group.facts if fact.startswith(beginning)}
        return sorted(fact.removeprefix(beginning) for fact in found)

    def by_value(self, key: str, *, default: str | None = None) -> dict[str, tuple[str, ...]]:
        """Return value -> nodes, the commonest first. Nodes without the fact are left out unless `default` is given."""
        return self.by(lambda facts: facts.get(key, default))

    def by_line(self, key: str) -> dict[str, tuple[str, ...]]:
        """Return each line of a fact with the nodes that have it."""
        return self.by_each(lambda facts: facts.get(key, "").splitlines())

    def by_each(self, values: Callable[[Facts], Iterable[_Value]]) -> dict[_Value, tuple[str, ...]]:
        """Return each of the values that a group's facts give -> the nodes that have it."""
        found = grouped((value, of.nodes) for of in self.groups for value in values(of.facts))
        return {value: tuple(chain(*nodes)) for value, nodes in found.items()}

    def by(self, value: Callable[[Facts], str | None]) -> dict[str, tuple[str, ...]]:
        """Return the value of each group's facts -> its nodes, the commonest first; None is left out."""
        found = self.by_each(lambda facts: [of_group] if (of_group := value(facts)) is not None else [])
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


NO_FLEET = Fleet((), {}, {}, ())
"""Of nobody who was asked."""

_OF_JOBS = (
    ShellContext("sbatch-bash", "slurm", "bash", "ALL"),
    ShellContext("sbatch-bash-login", "slurm", "bash-login", "ALL"),
    ShellContext("sbatch-sh", "slurm", "sh", "ALL"),
    ShellContext("sbatch-wrap", "slurm", "wrap", "ALL"),
    ShellContext("srun-bash", "slurm", "bash", "ALL", step=True),
)
CONTEXTS = (
    ShellContext("bash-login", "ssh", "bash-login"),
    # At a terminal, and no login shell.
    ShellContext("bash-interactive", "ssh", "bash-interactive", accounts=("user",)),
    ShellContext("bash-ssh", "ssh", "bash"),
    ShellContext("csh", "ssh", "csh"),
    ShellContext("zsh", "ssh", "zsh", accounts=("user",)),
    *_OF_JOBS,
    ShellContext("srun-pty", "slurm", "bash-interactive", "ALL", step=True),
    *(replace(context, name=f"{context.name}-none", export="NONE") for context in _OF_JOBS),
)


def choose_contexts(names: Sequence[str], ways: Sequence[str]) -> tuple[ShellContext, ...]:
    """Return the named contexts, or all of `ways`. Raises InputError `unknown-context`, also for a way not asked."""
    known = {c.name: c for c in CONTEXTS}
    for name in names:
        if name not in known:
            hint = did_you_mean(nearest(name, known), f"known: {', '.join(known)}")
            raise InputError("unknown-context", f"there is no context `{name}`", hint=hint)
        if (way := known[name].way) not in ways:
            hint = f"--via {way}, or --via both"
            raise InputError("unknown-context", f"`{name}` is reached by {way}, which is not asked", hint=hint)
    return tuple(c for c in CONTEXTS if c.way in ways and (not names or c.name in names))
