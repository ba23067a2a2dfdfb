"""The facts of a node, the needs of an entry, and why the node cannot run the entry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envmgr.catalog.gpu_codes import Gpu, GpuFacts, GpuNeeds
from envmgr.catalog.gpu_verdict import Judgement, Verdict, verdict_on
from envmgr.catalog.recipe import Requires
from envmgr.catalog.target import CPU_ORDER
from envmgr.catalog.versions import older
from envmgr.system.models import FrozenModel


class NodeFacts(FrozenModel):
    """The facts that decide which entries run on a node. An empty field is unknown, or the node has no such thing.

    `driver` is the version of NVIDIA's loaded kernel module. `gpus` are sorted and include those without a driver.
    `library` and `cuda` are as in `GpuFacts`. `cpu_level` is x86-64 to x86-64-v4, or aarch64.
    """

    driver: str = ""
    gpus: tuple[Gpu, ...] = ()
    library: str | None = None
    cuda: str = ""
    glibc: str = ""
    arch: str = ""
    cpu_level: str = ""
    os_id: str = ""
    os_version: str = ""

    @property
    def for_gpus(self) -> GpuFacts:
        return GpuFacts(gpus=self.gpus, library=self.library, cuda=self.cuda)


@dataclass(frozen=True, slots=True)
class NodeNeeds:
    """The needs of an entry: from its recipe, and for GPUs also from its lock and install. `gpu` is None if the entry
    needs no GPU.
    """

    requires: Requires
    gpu: GpuNeeds | None


def gpu_needs(
    requires: Requires, cuda: str | None = None, compat: str = "", measured: Sequence[str] | None = None
) -> GpuNeeds | None:
    """Return what an entry needs of a GPU; None if it needs none.

    Codes that were measured in the install win over the recipe's. An empty list counts as not measured.
    """
    codes = tuple(measured or requires.compute_capability) or None
    driver = requires.nvidia_driver or ""
    if cuda is None and codes is None and not driver:
        return None
    return GpuNeeds(cuda="" if cuda is None and codes else cuda, codes=codes, compat=compat, driver=driver)


def unfit(needs: NodeNeeds, facts: NodeFacts) -> tuple[str, ...]:
    """Return the reasons why a node cannot run an entry; empty if it can. An unknown fact is no reason.

    A node without a GPU is fit: the entry runs there as far as it can without one, and its module loads silently
    (modulefiles/gpu_gate.lua). `judge_gpu` distinguishes such nodes, and reports unknown facts.
    """
    requires, judged = needs.requires, judge_gpu(needs, facts)
    reasons = [judged.reason if judged is not None and judged.refused else ""]
    if requires.glibc and facts.glibc and older(facts.glibc, requires.glibc):
        reasons.append(f"glibc {facts.glibc} is older than {requires.glibc}")
    reasons.append(_cpu(requires, facts))
    return tuple(reason for reason in reasons if reason)


def judge_gpu(needs: NodeNeeds, facts: NodeFacts) -> Judgement | None:
    """Return the verdict on a node's GPUs; None for an entry that needs no GPU."""
    return None if needs.gpu is None else verdict_on(needs.gpu, facts.for_gpus)


def without_gpu(needs: NodeNeeds, facts: NodeFacts) -> bool:
    """Return whether the entry needs a GPU and the node has none."""
    judged = judge_gpu(needs, facts)
    return judged is not None and judged.verdict == Verdict.NO_GPU


def _cpu(requires: Requires, facts: NodeFacts) -> str:
    wanted = requires.cpu_level
    if wanted is None or not facts.cpu_level or wanted == facts.cpu_level:
        return ""
    if wanted not in CPU_ORDER or facts.cpu_level not in CPU_ORDER:
        return f"CPU is {facts.cpu_level}, not {wanted}"
    if CPU_ORDER[facts.cpu_level] < CPU_ORDER[wanted]:
        return f"CPU level {facts.cpu_level} is below {wanted}"
    return ""


def level_flags() -> dict[str, frozenset[str]]:
    """Return x86-64 level -> the flags of /proc/cpuinfo that it needs, lowest level first.

    Source: archspec's x86_64_v2, v3 and v4: the psABI's levels in the kernel's words, for Intel and AMD alike.
    """
    from archspec.cpu import TARGETS

    names = {level: level.replace("-", "_") for level in CPU_ORDER}
    return {level: frozenset(map(str, TARGETS[name].features)) for level, name in names.items()}


def cpu_level(arch: str, flags: Iterable[str]) -> str:
    """Return the highest level whose flags are all present; `flags` are from /proc/cpuinfo. Empty for other
    architectures.
    """
    if arch != "x86_64":
        return "aarch64" if arch == "aarch64" else ""
    given = set(flags)
    if given & {"pni", "ssse3"}:  # the kernel's word for SSE3
        given.add("sse3")
    fitting = [level for level, needed in level_flags().items() if needed <= given]
    return fitting[-1] if fitting else ""
