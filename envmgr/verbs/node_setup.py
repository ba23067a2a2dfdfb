"""`envmgr node-setup`: show, write or install the files by which modules resolve in every shell and job of nodes."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

from envmgr.errors import CommandError, InputError
from envmgr.modules.node_paths import SLURM_LINE, TASK_PROLOG
from envmgr.modules.nodesetup import Action, NodeFiles, install_script, node_files
from envmgr.modules.nodesetup_tree import plain_files
from envmgr.publish.flip_checks import highest_signed
from envmgr.publish.signature import signers_text
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context
from envmgr.store.away import sees_prefix
from envmgr.store.place import require_kinds, require_place
from envmgr.system.files import atomic_write, explain_os_error
from envmgr.verbs import DryRun, ViaOption, needs, option

if TYPE_CHECKING:
    from envmgr.nodes.envelope import Reply


HERE = "this machine"


FileStatus = Literal["same", "written", "removed", "would-write", "would-remove", "skipped", "failed"]


_STATUSES = get_args(FileStatus)


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file or lines, and their place. `mode` is None for lines in a file of the system, `link` for a link to
    `text`.
    """

    path: str
    mode: str | None
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """The outcome for one file on these nodes (folded); `reason` where there is one."""

    path: str
    status: FileStatus
    nodes: str
    reason: str


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """Nodes (folded) on which nothing is known to be done: `silent`, `unreachable`, `not-root` or `garbled`."""

    nodes: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class SlurmState:
    """The TaskProlog of these nodes: `named` (ours), `other` (`value`), `unset`, `unknown` (no slurm.conf), `absent`
    (no Slurm).
    """

    nodes: str
    state: str
    value: str


@dataclass(frozen=True, slots=True)
class NodeSetupResult(Result):
    """The result of `node-setup`. `command` makes the changes that were only shown; empty where none are left to make."""

    schema: ClassVar[str] = "envmgr.node-setup/1"
    action: Literal["show", "output", "apply", "undo"]
    dry_run: bool
    files: tuple[PlannedFile, ...]
    output: Path | None = None
    nodes: int = 0
    outcomes: tuple[FileOutcome, ...] = ()
    failures: tuple[NodeFailure, ...] = ()
    slurm: tuple[SlurmState, ...] = ()
    to_do: tuple[str, ...] = ()
    command: str = ""

    @property
    def exit_code(self) -> int:
        return 3 if self.failures or any(o.status == "failed" for o in self.outcomes) else 0

    def lines(self) -> Lines:
        if self.action == "show":
            for file in self.files:
                yield f"# {file.path}  {file.mode or 'lines'}: {file.why}"
                yield file.text
        elif self.action == "output":
            yield f"{'would write' if self.dry_run else 'wrote'} {self.output}: README says what is what"
        yield Table([o.status, o.path, o.nodes, o.reason] for o in self.outcomes)
        for failure in self.failures:
            yield f"{failure.status}: {failure.nodes}: {failure.reason}"
        if self.command:
            yield f"nothing was changed; `{self.command}` does it"
        yield from self.to_do


@needs("nothing")
def node_setup(
    ctx: Context,
    nodes: Annotated[str | None, option("Set up these nodes, such as c[1-3] or @gpu.", "SET")] = None,
    here: Annotated[bool, option("Set up this machine.")] = False,
    apply: Annotated[bool, option("Make the changes; by default they are only shown.")] = False,
    undo: Annotated[bool, option("Show what would be removed again; with --apply, remove it.")] = False,
    folder: Annotated[
        Path | None, option("Write plain files to this folder, for Ansible and similar tools.", "DIR", "--output")
    ] = None,
    via: ViaOption = None,
    dry_run: DryRun = False,
) -> NodeSetupResult:
    """Let every shell and job find the modules.

    It sets up nodes: it shows the files, and with --nodes what would change there. With --apply it makes these changes, as root; with
    --undo --apply it takes them back.
    """
    _require_own_place(ctx)
    signing, signer = ctx.site.signing, ctx.signer
    signers = "" if undo else None if signing is None else signers_text(signing)
    # A node that has lost its memory of flips must still refuse the ones from before this setup.
    floor = 0 if undo or signer is None else highest_signed(ctx.prefix, signer)
    files = node_files(ctx.site, signers, floor)
    plan = _plan(files)
    if nodes is not None and here:
        raise InputError("node-setup-where", "both --nodes and --here are given", hint="choose one")
    if folder is not None:
        if apply or undo or nodes is not None or here:
            message = "--output writes to a folder, and changes no node"
            raise InputError("node-setup-where", message, hint="leave out the other options")
        if not dry_run:
            _write(folder, plain_files(files, ctx.site))
        return NodeSetupResult("output", dry_run, plan, output=folder, to_do=(_slurm_line(),))
    if nodes is None and not here:
        if apply or undo:
            message = f"{'--undo' if undo else '--apply'} does not say on which nodes"
            hint = "`--nodes SET` (such as `c[1-3]`, or a group of the site), or `--here` for this machine"
            raise InputError("node-setup-where", message, hint=hint)
        return NodeSetupResult("show", True, plan, to_do=(_slurm_line(),))
    dry = dry_run or not apply
    action: Action = ("undo-check" if dry else "undo") if undo else ("check" if dry else "apply")
    script = install_script(files, action)
    answers, failures = _ask_here(ctx, script) if here else _ask(ctx, script, nodes, via)
    result = _judge(files, plan, answers, failures, undo=undo, dry_run=dry)
    if not any(outcome.status in {"would-write", "would-remove"} for outcome in result.outcomes):
        return result
    place = ["--here"] if here else ["--nodes", nodes or "", *(["--via", via] if via else [])]
    command = shlex.join(["envmgr", "node-setup", *place, *(["--undo"] if undo else []), "--apply"])
    return replace(result, command=command)


def _ask_here(ctx: Context, script: str) -> tuple[dict[str, str], list[NodeFailure]]:
    try:
        done = ctx.runner.run(["sh", "-c", script], timeout=60)
    except CommandError as error:
        return {}, [NodeFailure(HERE, "silent", error.message)]
    return {HERE: done.stdout}, []


def _ask(
    ctx: Context, script: str, expression: str | None, via: Literal["ssh", "slurm"] | None
) -> tuple[dict[str, str], list[NodeFailure]]:
    """Return the answer of each node to the script, and the nodes without an answer."""
    from envmgr.nodes.fanout import ask_nodes
    from envmgr.nodes.sets import resolve_nodes

    names = resolve_nodes(expression, ctx.site, ctx.runner)
    answers: dict[str, str] = {}
    failures: list[NodeFailure] = []
    with ctx.reporter.stage("nodes", total=len(names)) as stage:

        def on_reply(reply: Reply) -> None:
            if reply.status == "answered":
                answers[reply.node] = reply.text
            else:
                failures.append(NodeFailure(reply.node, reply.status, reply.reason))
            stage.update(len(answers) + len(failures), detail=reply.node)

        ask_nodes(names, script, site=ctx.site, via=ctx.way(via), runner=ctx.runner, on_reply=on_reply)
    return answers, failures


def _judge(
    files: NodeFiles,
    plan: tuple[PlannedFile, ...],
    answers: dict[str, str],
    failures: list[NodeFailure],
    *,
    undo: bool,
    dry_run: bool,
) -> NodeSetupResult:
    """Read every answer, and fold equal ones."""
    count = len(answers) + len(failures)
    outcomes: dict[tuple[str, FileStatus, str], list[str]] = defaultdict(list)
    slurm: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node, text in answers.items():
        lines = [tuple(line.split("\t")) for line in text.splitlines()]
        if lines and lines[0][0] == "not-root":
            reason = f"the script ran there as {lines[0][1]}, and only root can write to /etc"
            failures.append(NodeFailure(node, "not-root", reason))
            continue
        said = [line for line in lines if len(line) == 3 and line[0] in _STATUSES and line[1] in files.paths]
        states = [line for line in lines if len(line) == 3 and line[0] == "slurm"]
        # Each file must be reported once: half of an answer must not look like success.
        if len(said) != files.count or len(states) != 1 or len(said) + 1 != len(lines):
            failures.append(NodeFailure(node, "garbled", f"an answer that makes no sense: {text[:200]!r}"))
            continue
        for status, path, reason in said:
            outcomes[path, status, reason].append(node)  # type: ignore[index]
        slurm[states[0][1], states[0][2]].append(node)
    order = {path: number for number, planned in enumerate(plan) for path in planned.path.split(" or ")}
    folded = [FileOutcome(path, status, _fold(nodes), reason) for (path, status, reason), nodes in outcomes.items()]
    states_folded = tuple(SlurmState(_fold(nodes), *state) for state, nodes in sorted(slurm.items()))
    return NodeSetupResult(
        "undo" if undo else "apply",
        dry_run,
        plan,
        nodes=count,
        outcomes=tuple(sorted(folded, key=lambda o: (order.get(o.path, len(plan)), o.status, o.nodes))),
        failures=_fold_failures(failures),
        slurm=states_folded,
        to_do=(*_root_advice(failures), *_slurm_advice(states_folded, undo=undo)),
    )


def _fold_failures(failures: Iterable[NodeFailure]) -> tuple[NodeFailure, ...]:
    grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in failures:
        grouped[each.status, each.reason].append(each.nodes)
    return tuple(NodeFailure(_fold(nodes), *what) for what, nodes in sorted(grouped.items()))


def _fold(nodes: Sequence[str]) -> str:
    if list(nodes) == [HERE]:
        return HERE
    from envmgr.nodes.sets import fold

    return fold(nodes)


def _root_advice(failures: Iterable[NodeFailure]) -> tuple[str, ...]:
    denied = [f for f in failures if f.status == "not-root"]
    if not denied:
        return ()
    if denied[0].nodes == HERE:
        return ("run it as root",)
    return ("in site.yaml: `transport: {user: root}`, or a user who may use sudo and `transport: {become: sudo -n}`",)


def _slurm_line() -> str:
    return f"Slurm: when every node has the files, put `{SLURM_LINE}` into slurm.conf, then `scontrol reconfigure`"


def _slurm_advice(states: Iterable[SlurmState], *, undo: bool) -> tuple[str, ...]:
    """Return what the administrator has to do, because slurm.conf belongs to the site."""
    advice = _SLURM_UNDO if undo else _SLURM
    return tuple(
        f"Slurm: {advice[each.state].format(nodes=each.nodes, value=each.value)}"
        for each in states
        if each.state in advice
    )


# State of TaskProlog on nodes -> what the administrator does there.
_SLURM_UNDO = {"named": f"take `{SLURM_LINE}` out of {{value}} on {{nodes}}, then `scontrol reconfigure`"}
_SLURM = {
    "unset": (
        f"when every node has the files, put `{SLURM_LINE}` into {{value}} on {{nodes}}, then `scontrol reconfigure`"
    ),
    "other": f"TaskProlog on {{nodes}} is {{value}}: let it run {TASK_PROLOG} as well, and pass on what that prints",
    "unknown": f"{{nodes}} has no slurm.conf that can be read: see that the site's says `{SLURM_LINE}`",
}


def _plan(files: NodeFiles) -> tuple[PlannedFile, ...]:
    whole = [PlannedFile(f.path, f.mode, f.text, f.why) for f in files.files]
    for timer in files.timers:
        whole += [PlannedFile(f.path, f.mode, f.text, f.why) for f in (timer.service, timer.cron)]
    for service in files.linked:
        unit = service.unit
        whole.append(PlannedFile(unit.path, unit.mode, unit.text, unit.why))
        target = f"../{unit.path.rpartition('/')[2]}"
        whole.append(PlannedFile(service.link, "link", f"{target}\n", f"enables it: a link to {target}"))
    kernels = files.kernels
    if not kernels.refused:
        whole.append(PlannedFile(kernels.path, "link", f"{kernels.target}\n", kernels.why))
    return (*whole, *(PlannedFile(" or ".join(b.paths), None, f"{b.text}\n", b.why) for b in files.blocks))


def _write(folder: Path, tree: dict[str, tuple[str, int]]) -> None:
    with explain_os_error(folder):
        for name, (text, mode) in tree.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            atomic_write(folder / name, text, mode=mode)


def _require_own_place(ctx: Context) -> None:
    """Raise EnvmgrError `prefix-moved`, `path-unusable` for a prefix that this host sees; it may be away."""
    if sees_prefix(ctx.site):
        require_kinds(ctx.prefix)
        require_place(ctx.prefix)
