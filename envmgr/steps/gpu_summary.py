"""What an entry needs of GPUs, and what the last audits say of it on nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envmgr.catalog.fitness import NodeFacts, NodeNeeds, judge_gpu
from envmgr.catalog.gpus import FLOORS, toolkit_driver
from envmgr.nodes.sets import fold


@dataclass(frozen=True, slots=True)
class GpuVerdict:
    """The verdict on an entry on these nodes (folded), as the last audits saw them."""

    nodes: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class GpuSummary:
    """The needs of an entry for GPUs, and its verdicts on nodes.

    `cuda` is the version of the lock, empty where it is not known. `runs_from` is the oldest driver that runs its
    machine code, `compiles_from` the first branch of drivers that compile for it; each is empty where no table has it.
    `codes` are None where they are not known. `measured`: they were read from the binaries of its install. `compat` is
    the version of its `cuda-compat`.
    """

    cuda: str | None
    runs_from: str
    compiles_from: str
    codes: tuple[str, ...] | None
    measured: bool
    compat: str
    nodes: tuple[GpuVerdict, ...]


def summarize(needs: NodeNeeds, *, measured: bool, seen: Mapping[str, NodeFacts]) -> GpuSummary | None:
    """Return the summary of an entry, None for one that needs no GPU."""
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


def gpu_rows(gpu: GpuSummary | None) -> list[tuple[str, str]]:
    """Return the driver's part, the code's part, and what the last audits saw."""
    if gpu is None:
        return []
    driver = [f"CUDA {gpu.cuda}" if gpu.cuda else "CUDA not known" if gpu.cuda is not None else "no CUDA in the lock"]
    driver += [f"runs from driver {gpu.runs_from} on"] if gpu.runs_from else ["which driver it needs is not known"]
    if gpu.compiles_from:
        driver.append(f"compiles at run time (Triton, NVRTC) from branch {gpu.compiles_from} on")
    elif gpu.cuda:
        driver.append("which driver compiles for it at run time is not known")
    driver += [f"forward compatibility by cuda-compat {gpu.compat} (data centre GPUs)"] if gpu.compat else []
    where = "measured in its install" if gpu.measured else "by its recipe; measured when it is built"
    code = f"{', '.join(gpu.codes)} ({where})" if gpu.codes else "not known" if gpu.cuda is not None else ""
    seen = [
        ("gpu on nodes", f"{each.nodes}: {each.verdict}{f': {each.reason}' if each.reason else ''}")
        for each in gpu.nodes
    ]
    return [("gpu driver", "; ".join(driver)), ("gpu code", code), *seen]
