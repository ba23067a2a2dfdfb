"""`envmgr node-setup`: show, write or install the files by which modules resolve in every shell and job of nodes."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from envmgr.errors import InputError
from envmgr.modules.node_paths import SLURM_LINE, TASK_PROLOG
from envmgr.modules.nodesetup import Action, NodeFiles, install_script, node_files
from envmgr.modules.nodesetup_tree import plain_files
from envmgr.publish.flip_checks import highest_signed
from envmgr.publish.signature import signers_text
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context
from envmgr.steps.node_setup import HERE, FileOutcome, NodeFailure, SlurmState, ask, ask_here, judge
from envmgr.store.away import sees_prefix
from envmgr.store.place import require_kinds, require_place
from envmgr.system.files import atomic_write, explain_os_error
from envmgr.verbs import DryRun, ViaOption, needs, option


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
    answers, failures = ask_here(ctx, script) if here else ask(ctx, script, nodes, via)
    outcomes, failed, slurm = judge(files, answers, failures)
    to_do = (*_root_advice(failed), *_slurm_advice(slurm, undo=undo))
    done: Literal["apply", "undo"] = "undo" if undo else "apply"
    count = len(answers) + len(failures)
    command = ""
    if any(outcome.status in {"would-write", "would-remove"} for outcome in outcomes):
        place = ["--here"] if here else ["--nodes", nodes or "", *(["--via", via] if via else [])]
        command = shlex.join(["envmgr", "node-setup", *place, *(["--undo"] if undo else []), "--apply"])
    return NodeSetupResult(done, dry, plan, None, count, outcomes, failed, slurm, to_do, command)


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
