"""The answers of nodes to the script of `node-setup`: asked, checked, and equal ones folded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from envmgr.errors import CommandError
from envmgr.modules.nodesetup import NodeFiles
from envmgr.steps import Context

if TYPE_CHECKING:
    from envmgr.nodes.envelope import Reply

HERE = "this machine"
FileStatus = Literal["same", "written", "removed", "would-write", "would-remove", "skipped", "failed"]
_STATUSES = get_args(FileStatus)


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


def ask_here(ctx: Context, script: str) -> tuple[dict[str, str], list[NodeFailure]]:
    """Return the answer of this machine to the script, or that it gave none."""
    try:
        done = ctx.runner.run(["sh", "-c", script], timeout=60)
    except CommandError as error:
        return {}, [NodeFailure(HERE, "silent", error.message)]
    return {HERE: done.stdout}, []


def ask(
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


def judge(
    files: NodeFiles, answers: Mapping[str, str], failures: list[NodeFailure]
) -> tuple[tuple[FileOutcome, ...], tuple[NodeFailure, ...], tuple[SlurmState, ...]]:
    """Read every answer, and fold equal ones: for each file, for nodes that failed, and for TaskProlog."""
    outcomes: dict[tuple[str, FileStatus, str], list[str]] = defaultdict(list)
    slurm: dict[tuple[str, str], list[str]] = defaultdict(list)
    failed: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in failures:
        failed[each.status, each.reason].append(each.nodes)
    for node, text in answers.items():
        lines = [tuple(line.split("\t")) for line in text.splitlines()]
        if lines and lines[0][0] == "not-root":
            reason = f"the script ran there as {lines[0][1]}, and only root can write to /etc"
            failed["not-root", reason].append(node)
            continue
        said = [line for line in lines if len(line) == 3 and line[0] in _STATUSES and line[1] in files.paths]
        states = [line for line in lines if len(line) == 3 and line[0] == "slurm"]
        # Each file must be reported once: half of an answer must not look like success.
        if len(said) != files.count or len(states) != 1 or len(said) + 1 != len(lines):
            failed["garbled", f"an answer that makes no sense: {text[:200]!r}"].append(node)
            continue
        for status, path, reason in said:
            outcomes[path, status, reason].append(node)  # type: ignore[index]
        slurm[states[0][1], states[0][2]].append(node)
    folded = [FileOutcome(path, status, _fold(nodes), reason) for (path, status, reason), nodes in outcomes.items()]
    return (
        tuple(sorted(folded, key=lambda o: (files.paths.index(o.path), o.status, o.nodes))),
        tuple(NodeFailure(_fold(nodes), *what) for what, nodes in sorted(failed.items())),
        tuple(SlurmState(_fold(nodes), *state) for state, nodes in sorted(slurm.items())),
    )


def _fold(nodes: Sequence[str]) -> str:
    if list(nodes) == [HERE]:
        return HERE
    from envmgr.nodes.sets import fold

    return fold(nodes)
