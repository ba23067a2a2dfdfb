"""What `show` tells of an entry's GPUs: which driver it needs, which one compiles for it, which GPUs it has code for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envmgr.catalog.cuda_drivers import FLOORS, toolkit_driver
from envmgr.catalog.fitness import NodeFacts, NodeNeeds, judge_gpu
from envmgr.nodes import fold


@dataclass(frozen=True, slots=True)
class GpuVerdict:
    """What the entry does on these nodes (folded), as the last audits saw them."""

    nodes: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class GpuSummary:
    """`cuda` is the version of the lock, empty where that is not known; `runs_from` the oldest driver that runs its machine code,
    `compiles_from` the branch from which on drivers compile for it, each empty where no table tells. `codes` are None where not known;
    `measured`: read from the binaries of its install. `compat` is the version of its `cuda-compat`.
    """

    cuda: str | None
    runs_from: str
    compiles_from: str
    codes: tuple[str, ...] | None
    measured: bool
    compat: str
    nodes: tuple[GpuVerdict, ...]


def summarize(needs: NodeNeeds, *, measured: bool, seen: Mapping[str, NodeFacts]) -> GpuSummary | None:
    """None for an entry that needs no GPU."""
    gpu = needs.gpu
    if gpu is None:
        return None
    found: dict[tuple[str, str], list[str]] = {}
    for node, facts in seen.items():
        if judged := judge_gpu(needs, facts):
            found.setdefault((judged.verdict.value, judged.reason), []).append(node)
    return GpuSummary(
        cuda=gpu.cuda,
        runs_from=FLOORS.get((gpu.cuda or "").partition(".")[0], gpu.driver),
        compiles_from=toolkit_driver(gpu.cuda or "").partition(".")[0],
        codes=gpu.codes,
        measured=measured,
        compat=gpu.compat,
        nodes=tuple(GpuVerdict(fold(nodes), *judged) for judged, nodes in sorted(found.items())),
    )
