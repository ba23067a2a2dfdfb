"""What an audit is made of: what is asked, what nodes answered, what was expected, and the shape of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Literal, TypeVar

from envmgr.audit.baseline import Baseline, Compared
from envmgr.audit.causes import Traced, set_by
from envmgr.audit.controller import Controller, SlurmView
from envmgr.audit.plan import AuditPlan, PublishedGeneration
from envmgr.audit.table import NO_TABLE, Declared, DeclaredFacts, Table, Words, fill, read_table
from envmgr.catalog.site import Site
from envmgr.finding import Severity
from envmgr.nodes import fold
from envmgr.probe.model import Facts, Fleet, Group, ProbePart, ProbeStage, ShellAccount, ShellContext
from envmgr.probe.prefix import mount_facts
from envmgr.probe.shell import context_key, looked_key
from envmgr.system.shelltext import assign, script_text

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that checks judge.

    `ways` is `ssh`, `slurm` (jobs that inherit), `slurm-none` -> answers; `asked` names what was asked in each. `look` is
    the short look over ssh before jobs are sent, where ssh was not asked for more. `here` is this host, asked without a
    connection, where it is a login node of the site: jobs inherit from its shells.

    `published` is None where the controller could not read it. `controller` is what the probe tells of this host, `answers` is
    check -> what its own question to this host found. `groups` are the site's node groups with their nodes, `login` its login
    nodes; `kinds` are groups by hardware, where there is no site that has groups;
    `logs` is node -> slurmd's first error, where a job ended without an answer. `gpu_jobs` are the answers of jobs that asked for a
    GPU, of nodes that hide theirs otherwise, each with a reply; None where no node does. `alone`: nothing is published, here or on any node, and users
    load modules of others alone. With a `baseline`, nodes are right that have what it has; what is compared goes into `notebook`.
    """

    site: Site
    plan: AuditPlan
    nodes: tuple[str, ...]
    published: PublishedGeneration | None
    ways: Mapping[str, Fleet]
    asked: tuple[tuple[ShellContext, ShellAccount, str], ...] = ()
    look: Fleet | None = None
    here: Fleet | None = None
    controller: Facts = field(default_factory=dict)
    slurm: SlurmView = field(default_factory=SlurmView)
    answers: Mapping[str, object] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    login: frozenset[str] = frozenset()
    logs: Mapping[str, str] = field(default_factory=dict)
    gpu_jobs: Fleet | None = None
    alone: bool = False
    baseline: Baseline | None = None
    table: Table = NO_TABLE

    @property
    def check(self) -> str:
        """The check that judges now."""
        return self.table.check

    def of_check(self, table: Table) -> Evidence:
        """Return what the check with this table judges: it can read the facts that the table names, and no others."""
        declared = Declared(table)
        return replace(
            self,
            table=table,
            ways={way: _declared(fleet, declared) for way, fleet in self.ways.items()},
            look=self.look and _declared(self.look, declared),
            here=self.here and _declared(self.here, declared),
            controller=DeclaredFacts(self.controller, declared),
            gpu_jobs=self.gpu_jobs and _declared(self.gpu_jobs, declared),
        )

    def say(
        self,
        row: str,
        nodes: Iterable[str] = (),
        shell: AskedShell | None = None,
        severity: Severity | None = None,
        **values: object,
    ) -> Found:
        """Return a row of the check's table as a finding: `values` fill in its words, and so do `user`, `prefix` and `nodes`.

        `severity` is instead of the row's own.
        """
        found = worded(self.table.rows[row], self, nodes, shell, values)
        return replace(found, severity=severity or found.severity)

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

    def each_shell(self) -> Iterator[AskedShell]:
        """Return every shell that was asked for, as `contexts`."""
        for context, account, fleet in self.contexts():
            yield AskedShell(context, account, fleet, self.account(account))

    def answer(self, kind: type[_Answer]) -> _Answer | None:
        """The answer to the check's own question to this host; None where it was not asked."""
        found = self.answers.get(self.check)
        return found if isinstance(found, kind) else None

    @property
    def reference(self) -> str:
        """The node that is right whatever others have, empty for none."""
        return self.plan.request.reference

    def looked(self, part: str) -> Fleet:
        """The answers of nodes on which what a check looks at outside of shells was looked at, to its end."""
        return self.fleet.only(lambda facts: looked_key(part, "node") in facts)

    def login_shell(self) -> ShellContext | None:
        """The ordinary user's login bash over ssh, where that was asked for."""
        return next(
            (
                context
                for context, account, way in self.asked
                if (context.name, account, way) == ("bash-login", "user", "ssh")
            ),
            None,
        )

    def account(self, account: ShellAccount) -> str:
        return self.plan.user if account == "user" else "root"

    def shell(self, context: ShellContext, account: ShellAccount) -> str:
        """Where a finding about a shell is: `bash-login (alice)`."""
        return f"{context.name} ({self.account(account)})"

    @property
    def shells(self) -> Fleet:
        """Sound nodes, and this host where it is a login node: whose shells are compared."""
        fleet = self.fleet.sound
        if self.here is None:
            return fleet
        return replace(fleet, groups=(*fleet.groups, *self.here.sound.groups))


@dataclass(frozen=True, slots=True)
class Found:
    """One row of a check's findings: the engine adds the check's name, folds the nodes and fills in the hint.

    `where` is a file, an entry or a shell. `between` are nodes that differ from each other, where nobody can tell which one is right.
    """

    severity: Severity
    where: str
    found: str
    expected: str = ""
    hint: str | Traced = ""
    nodes: Iterable[str] = ()
    between: Iterable[str] = ()


@dataclass(frozen=True, slots=True)
class Noted:
    """Values that were compared between nodes: they go into a baseline, whether they differ or not."""

    compared: Compared
    values: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class AskedShell:
    """A context of an account, with the answers of nodes whose prefix answers. Facts are named without the shell's own key."""

    context: ShellContext
    account: ShellAccount
    fleet: Fleet
    user: str

    @property
    def key(self) -> str:
        """The beginning of this shell's facts."""
        return context_key(self.context, self.account)

    @property
    def where(self) -> str:
        """The place of a finding about it: `bash-login (alice)`."""
        return f"{self.context.name} ({self.user})"

    def by_value(self, fact: str, *, default: str | None = None) -> dict[str, tuple[str, ...]]:
        return self.fleet.by_value(f"{self.key}{fact}", default=default)

    def by_line(self, fact: str) -> dict[str, tuple[str, ...]]:
        return self.fleet.by_line(f"{self.key}{fact}")

    def names(self, beginning: str) -> list[str]:
        return self.fleet.names(f"{self.key}{beginning}")

    def set_by(self, nodes: Iterable[str], names: Sequence[str], known: str, unknown: str, **more: bool) -> Traced:
        """Return a hint that names the line which sets `names` in this shell."""
        return set_by(tuple(nodes), self.context, self.account, names, known, unknown, **more)


def worded(
    row: Words, evidence: Evidence, nodes: Iterable[str], shell: AskedShell | None, values: Mapping[str, object]
) -> Found:
    """Return a finding in the words of a row of a table; without a place of its own it is where the shell is."""
    nodes = tuple(nodes)
    user = shell.user if shell is not None else evidence.plan.user
    given = {"user": user, "prefix": evidence.site.prefix, "nodes": fold(nodes), **values}
    hint: str | Traced = ""
    if row.cause and shell is not None:
        names, unplaced = fill(row.cause, given).split(), fill(row.unplaced, given)
        known = fill(row.hint, {**given, "place": ""})
        hint = shell.set_by(nodes, names, known, unplaced, foreign=row.foreign) if names else unplaced
    else:
        hint = fill(row.hint, given)
    place = fill(row.where, given) or (shell.where if shell is not None else "")
    return Found(row.severity, place, fill(row.found, given), fill(row.expected, given), hint, nodes)


Row = Found | Noted
Probe = Callable[[AuditPlan], Mapping[ProbeStage, str]]
Want = Literal["installs", "peers", "slurm", "published", "modules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What a module of `checks/` is, in its `CHECK`. Its name is the module's; the module's docstring is what `audit --explain` prints.
    `NAME.yaml` beside the module is its `table`: the facts that it reports, and the findings that follow from a fact alone.

    `probe` gives POSIX shell text by stage, as for `ProbePart`; the text can use `$generation` (a folder, or empty) and `$samples`, too.
    `judge` yields what else is wrong; it is pure. `ask_controller` asks this host once nodes have answered; `evidence.answer` returns what it
    found, of its type. `gpu_probe` is the part of `probe` that looks at GPUs: it is asked again in jobs that ask for a
    GPU, on nodes that hide theirs, and the answers come as `evidence.gpu_jobs`. `explained` names nodes on which modules cannot work
    at all, and this check says why: checks that want `modules` report nothing about them.

    `wants`: `installs` and `peers` are read into the plan, and `slurm` into the evidence, only for a check that wants them; `published`: there is nothing to look at
    where nothing is published; `modules`: its findings follow where Lmod does not run, or users cannot reach the prefix.
    `loads`: it loads modules in each context, and so comes after those that look at what a shell brings along. `joins`: one finding
    for places at which it finds the same.
    """

    judge: Callable[[Evidence], Iterable[Row]] = lambda _: ()
    probe: Probe = lambda _: {}
    ask_controller: Callable[[Controller, Evidence], object] | None = None
    gpu_probe: Probe | None = None
    explained: Callable[[Evidence], frozenset[str]] | None = None
    wants: frozenset[Want] = frozenset()
    loads: bool = False
    joins: bool = False
    table: Table = NO_TABLE
    text: str = ""

    @property
    def part(self) -> str:
        """Its part of the probe's script; facts of the check begin with it."""
        return self.table.part

    @property
    def name(self) -> str:
        return self.table.check


def check_of(module: ModuleType) -> Check:
    """Return the check that a module of `checks/` is, with its table and its docstring."""
    check: Check = module.CHECK
    return replace(check, table=read_table(Path(module.__file__ or "").with_suffix(".yaml")), text=module.__doc__ or "")


def scripts(module: str, *stages: ProbeStage) -> Probe:
    """Return a probe that is the same for every plan: `STAGE.sh` beside the module, whose `__file__` is given."""
    return lambda _: {stage: script_text(module, f"{stage}.sh") for stage in stages}


@dataclass(frozen=True, slots=True)
class _DeclaredFleet(Fleet):
    """Answers of which only declared facts can be asked for."""

    declared: Declared = field(default_factory=Declared)

    def names(self, beginning: str) -> list[str]:
        self.declared.require_pattern(beginning)
        return Fleet.names(self, beginning)


def _declared(fleet: Fleet, declared: Declared) -> Fleet:
    groups = (Group(DeclaredFacts(group.facts, declared), group.nodes) for group in fleet.groups)
    own = {node: DeclaredFacts(facts, declared) for node, facts in fleet.own.items()}
    return _DeclaredFleet(tuple(groups), own, fleet.replies, fleet.missing, declared)


def standing_alone(checks: Mapping[str, Check]) -> dict[str, Check]:
    """Those that have something to look at where nothing is published."""
    return {name: check for name, check in checks.items() if "published" not in check.wants}


def audit_parts(checks: Iterable[Check], plan: AuditPlan) -> list[ProbePart]:
    """The parts of an audit's probe: what all checks are given, how the node has the prefix, and each check's own."""
    parts = [mount_facts()]
    ordered = sorted(checks, key=lambda check: check.loads)
    parts += [ProbePart(check.part, check.probe(plan)) for check in ordered]
    given = assign(generation=plan.generation, samples=" ".join(plan.samples))
    return [ProbePart("audit", {stage: given for part in parts for stage in part.texts}), *parts]
