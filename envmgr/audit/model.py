"""The parts of an audit: the request, the nodes' answers, the expected state, and the interface of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Literal, TypeVar

from envmgr.audit.baseline import Baseline
from envmgr.audit.controller import Controller, SlurmView
from envmgr.audit.findings import AuditFinding, Loose
from envmgr.audit.hints import actions_of
from envmgr.audit.plan import AuditPlan, PublishedGeneration
from envmgr.audit.shell.shared_shell import of_login
from envmgr.audit.table import NO_TABLE, CheckTable, Steps, Words, fill, read_table
from envmgr.catalog.site import Site
from envmgr.nodes.sets import fold
from envmgr.probe.model import CONTEXTS, NO_FLEET, Facts, Fleet, ProbePart, ProbeStage, ShellAccount, ShellContext
from envmgr.probe.prefix import mount_facts
from envmgr.probe.shell import context_key, looked_key
from envmgr.report import Severity
from envmgr.system.shelltext import assign, script_text

_Answer = TypeVar("_Answer")
Values = Mapping[str, tuple[str, ...]]
"""value -> the nodes that have it."""
Asked = tuple[ShellContext, ShellAccount, str]
"""A shell, and the way in which it was asked."""
QUORUM = 3  # like nodes that must have answered before one of them is accused


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that checks judge.

    `ways` is `ssh`, `slurm` (jobs that inherit), `slurm-none` -> answers; `asked` names what was asked in each. `look`
    is the short look over ssh before jobs are sent, if ssh was not asked for more. `here` are hosts beside the nodes from
    which jobs inherit: this host if it sends jobs or is a login node, and the site's other login nodes. `sender` is this
    host's name.
    `as_users` is the answer of one job that was submitted as users do, without an option for exports; `in_job` is what nodes reported in
    jobs that sshd turned away.

    `published` is None if the controller could not read it. `controller` has the probe's facts on this host. `answers`
    maps a check to the answer to its own question to this host, or to the mistake that ended the question. `groups` are
    the site's node groups with their nodes, `login` its login nodes and the host that sends jobs. `kinds` are groups by hardware, if no site defines
    groups. `logs` is node -> slurmd's first error, if a job ended without an answer.

    `gpu_jobs` are the answers of jobs that asked for a GPU, for nodes that otherwise hide theirs, each with a reply. `alone` means that nothing is published, here or on any node: users load only modules from
    other tools. With a `baseline`, nodes are right that have its values.
    """

    site: Site
    plan: AuditPlan
    nodes: tuple[str, ...]
    published: PublishedGeneration | None
    ways: Mapping[str, Fleet]
    asked: tuple[Asked, ...] = ()
    look: Fleet | None = None
    here: Fleet = NO_FLEET
    sender: str = ""
    as_users: Fleet = NO_FLEET
    in_job: Fleet = NO_FLEET
    controller: Facts = field(default_factory=dict)
    slurm: SlurmView = field(default_factory=SlurmView)
    answers: Mapping[str, object] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    login: frozenset[str] = frozenset()
    logs: Mapping[str, str] = field(default_factory=dict)
    gpu_jobs: Fleet = NO_FLEET
    alone: bool = False
    baseline: Baseline | None = None
    table: CheckTable = NO_TABLE

    def say(
        self,
        row: str | Words,
        nodes: Iterable[str] = (),
        shell: AskedShell | None = None,
        severity: Severity | None = None,
        *,
        hint: str | Steps = "",
        between: Iterable[str] = (),
        **values: object,
    ) -> Loose:
        """Return a row, of the check's table by its name, as a finding. `values`, `user`, `prefix` and `nodes` fill in its words.

        If it names no place, its place is the shell. `severity` and `hint` replace the row's own. `between` are nodes that
        differ from each other.
        """
        words, on, user = self.table.rows[row] if isinstance(row, str) else row, fold(nodes), (shell or self.plan).user
        given = {"user": user, "prefix": self.site.prefix, "nodes": on, **values}
        place = fill(words.where, given) or (shell.where if shell is not None else "")
        steps = Steps.model_validate(hint or words.hint.filled(given))
        said = (fill(words.found, given), fill(words.expected, given), steps.text, on, fold(between))
        worst = severity or words.severity
        finding = AuditFinding(self.table.check, worst, place, *said, actions=actions_of(steps, on))
        names = tuple(fill(words.cause, given).split())
        return Loose(finding, shell.context.name if shell else "", shell.account if shell else "", names)

    @property
    def fleet(self) -> Fleet:
        """Return the answers with everything but the contexts of jobs: over ssh, or without ssh of the first kind of
        job.
        """
        return next(iter(self.ways.values()))

    @property
    def mounts(self) -> Fleet:
        """Return the answers on how each node mounts the prefix, from before any step that could hang."""
        return self.look or self.fleet

    def each_shell(self) -> Iterator[AskedShell]:
        """Yield every requested context and account, with the answers of nodes whose prefix answers."""
        for context, account, way in self.asked:
            fleet = self.shells if way == "ssh" else self.ways[way].sound
            yield AskedShell(context, account, fleet, self.plan.user if account == "user" else "root")

    def answer(self, kind: type[_Answer]) -> _Answer | None:
        """Return the answer to the check's own question to this host; None if it was not asked."""
        found = self.answers.get(self.table.check)
        return found if isinstance(found, kind) else None

    def looked(self, part: str) -> Fleet:
        """Return the answers of nodes on which the check's looks outside of shells ran to their end."""
        return self.fleet.only(lambda facts: looked_key(part, "node") in facts)

    @property
    def user_login(self) -> AskedShell:
        """Return the login bash in which the stage `login` ran, to trace it, whatever contexts were requested."""
        return AskedShell(CONTEXTS[0], "user", self.shells, self.plan.user)

    @property
    def shells(self) -> Fleet:
        """Return the answers of sound nodes, and of hosts that send jobs: their shells are compared."""
        return replace(self.fleet, groups=(*self.fleet.sound.groups, *self.here.sound.groups))


@dataclass(frozen=True, slots=True)
class AskedShell:
    """A context of an account, with the answers of nodes whose prefix answers. Facts are named without the shell's own
    key.
    """

    context: ShellContext
    account: ShellAccount
    fleet: Fleet
    user: str

    @property
    def key(self) -> str:
        """Return the beginning of this shell's facts."""
        return context_key(self.context, self.account)

    @property
    def where(self) -> str:
        """Return the place of a finding about it: `bash-login (alice)`."""
        return f"{self.context.name} ({self.user})"


Rows = Iterator[Loose]
ProbeTexts = Mapping[ProbeStage, str]
"""Stage -> the shell text that asks there."""
Probe = Callable[[AuditPlan], ProbeTexts]
Want = Literal["slurm", "published"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The interface of a module of `checks/`, in its `CHECK`.

    The check's name is the module's; the module's docstring is the text of `audit --explain`. `NAME.yaml` next to the
    module is its `table`: the facts that it reports, and the findings that follow from a single fact.

    `probe` gives POSIX shell text by stage, as for `ProbePart`. The text can also use `$generation` (a folder, or
    empty) and `$samples`. `judge` yields the other findings; it is pure. `ask_controller` asks this host after nodes
    have answered; `evidence.answer` returns its result, by type.

    `wants` lists what the check needs. `slurm` is read into the evidence only for a check that wants it. With `published`, it has nothing to look at if nothing is published. `loads` means that it loads modules in
    each context, or looks at what was loaded, and so runs after checks of what a shell inherits.
    """

    judge: Callable[[Evidence], Iterable[Loose]] = lambda _: ()
    probe: Probe = lambda _: {}
    ask_controller: Callable[[Controller, Evidence], object] = lambda *_: None
    wants: frozenset[Want] = frozenset()
    loads: bool = False
    table: CheckTable = NO_TABLE
    text: str = ""


def check_of(module: ModuleType) -> Check:
    """Return the check of a module in `checks/`, with its table and its docstring."""
    check: Check = module.CHECK
    return replace(check, table=read_table(Path(module.__file__ or "").with_suffix(".yaml")), text=module.__doc__ or "")


def scripts(module: str, *stages: ProbeStage) -> Probe:
    """Return a probe that is the same for every plan: `STAGE.sh` next to the module, whose `__file__` is given."""
    return lambda _: {stage: script_text(module, f"{stage}.sh") for stage in stages}


def standing_alone(checks: Mapping[str, Check]) -> dict[str, Check]:
    """Return the checks that have something to look at if nothing is published."""
    return {name: check for name, check in checks.items() if "published" not in check.wants}


def audit_parts(checks: Iterable[Check], plan: AuditPlan) -> list[ProbePart]:
    """Return the parts of an audit's probe: the values for all checks, the facts about the mount, and each check's own
    part.
    """
    parts = [mount_facts()]
    ordered = sorted(checks, key=lambda check: check.loads)
    parts += [ProbePart(check.table.part, check.probe(plan)) for check in ordered]
    given = assign(generation=plan.generation, samples=" ".join(plan.samples))
    common = {"login": given + of_login(plan.day, plan.seconds)}
    return [ProbePart("audit", {stage: common.get(stage, given) for part in parts for stage in part.texts}), *parts]
