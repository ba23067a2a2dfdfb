"""The facts of a node, the needs of an entry, and the verdict: one of eight, by rules over both and NVIDIA's tables.

modulefiles/gpu_rules.lua has the same rules for the moment of a load. A version without a row in a table is unknown,
never guessed. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from envmgr.catalog.gpus import CONSUMER, DATA_CENTRE, FLOORS, SHIPPED, Gpu, GpuFacts, GpuNeeds, is_capability, runs
from envmgr.catalog.names import numbers, older
from envmgr.catalog.recipe_parts import Requires
from envmgr.catalog.site_file import CPU_ORDER
from envmgr.system.models import FrozenModel


class Verdict(StrEnum):
    """A verdict on GPUs, best first, as far as one GPU of several decides; `no-gpu` is for a node without any."""

    FULL = "full"
    NO_JIT = "no-jit"
    FORWARD = "forward"
    UNKNOWN = "unknown"
    NO_CODE = "no-code"
    TOO_OLD = "too-old"
    BROKEN = "broken"
    NO_GPU = "no-gpu"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judgement on a node's GPUs. `refused`: the policy `refuse` does not load the module there."""

    verdict: Verdict
    reason: str
    refused: bool = False


def verdict_on(needs: GpuNeeds, facts: GpuFacts) -> Judgement:
    """Return the verdict of the NVIDIA GPU on which the entry does best; other makers' GPUs count only if there is no
    NVIDIA GPU.
    """
    if facts.gpus is None:
        return Judgement(Verdict.UNKNOWN, "its GPUs were not looked at")
    if not facts.gpus:
        return Judgement(Verdict.NO_GPU, "no GPU")
    order = list(Verdict)
    own = [gpu for gpu in facts.gpus if gpu.vendor == "nvidia"]
    found = [_on(gpu, needs, facts) for gpu in own or facts.gpus]
    return min(found, key=lambda each: (order.index(each.verdict), each.refused))


def _on(gpu: Gpu, needs: GpuNeeds, facts: GpuFacts) -> Judgement:
    if gpu.vendor != "nvidia":
        return Judgement(Verdict.NO_CODE, f"{gpu.name or gpu.vendor}: it has code for NVIDIA's GPUs", refused=True)
    if broken := _broken(gpu, facts):
        return Judgement(Verdict.BROKEN, broken, refused=True)
    if not gpu.driver:
        return Judgement(Verdict.UNKNOWN, "the version of its driver could not be read")
    old = _too_old(gpu.driver, needs)
    if old and not needs.compat:
        return Judgement(Verdict.TOO_OLD, old, refused=True)
    compiles = knows_cuda(gpu.driver, facts.cuda, needs.cuda or "")
    forward = bool(needs.compat) and (bool(old) or compiles is False)
    code = None if needs.cuda is None else _code(gpu, needs, jit=True if forward else compiles)
    if code is not None and code.refused:
        return code
    if facts.library is None:
        return Judgement(Verdict.UNKNOWN, "its libcuda.so.1 was not looked at")
    if needs.cuda is None:
        return Judgement(Verdict.FULL, "")
    if code is not None:
        return code
    if forward:
        return _forward(gpu, needs)
    return _compiling(gpu.driver, needs, facts, compiles=compiles)


def _compiling(driver: str, needs: GpuNeeds, facts: GpuFacts, *, compiles: bool | None) -> Judgement:
    """Return whether the driver can also compile code at run time, for an entry that runs."""
    if needs.compat and _branch(driver) > _branch(SHIPPED.get(needs.compat, "0")):
        said = f"driver {driver} is newer than its cuda-compat {needs.compat}, which fails then if it is used"
        return Judgement(Verdict.UNKNOWN, said)
    if compiles is None or (compiles is False and _major(needs.cuda) not in FLOORS):
        said = f"no table tells which driver knows CUDA {needs.cuda}"
        return Judgement(Verdict.UNKNOWN, said if needs.cuda else "the CUDA version of its lock is not known")
    if not compiles:
        knows = f"CUDA {facts.cuda}" if facts.cuda else "an older CUDA"
        said = f"driver {driver} knows {knows}: what is compiled at run time for CUDA {needs.cuda} fails"
        return Judgement(Verdict.NO_JIT, said)
    return Judgement(Verdict.FULL, "")


def _broken(gpu: Gpu, facts: GpuFacts) -> str:
    if gpu.driver == "":
        return f"no driver is loaded for {gpu.name or 'its GPU'}"
    if gpu.driver and facts.library == "":
        return f"driver {gpu.driver} is loaded, and there is no libcuda.so.1"
    if gpu.driver and facts.library and facts.library != gpu.driver:
        return f"driver {gpu.driver} is loaded, libcuda.so.1 is of {facts.library}: updated, not rebooted"
    return ""


def _too_old(driver: str, needs: GpuNeeds) -> str:
    """Return why the driver is too old; empty if it is not.

    A minimum of the recipe that is no higher than the floor of its CUDA counts as the floor, which forward
    compatibility lifts.
    """
    floor = FLOORS.get(_major(needs.cuda), "")
    if floor and older(driver, floor):
        return f"driver {driver} is older than {floor}, the first for CUDA {_major(needs.cuda)}"
    if needs.driver and older(driver, needs.driver):
        return f"driver {driver} is older than {needs.driver}"
    return ""


def _code(gpu: Gpu, needs: GpuNeeds, *, jit: bool | None) -> Judgement | None:
    """Return what speaks against the entry's code on this GPU; None if nothing does."""
    codes = needs.parsed()
    if codes is None:
        return Judgement(Verdict.UNKNOWN, "what it has code for is not known")
    if not is_capability(gpu.arch):
        return Judgement(Verdict.UNKNOWN, f"the compute capability of {gpu.name or 'its GPU'} is not known")
    has = ", ".join(map(str, codes))
    match runs(codes, gpu.arch, jit=jit):
        case False:
            return Judgement(Verdict.NO_CODE, f"compute capability {gpu.arch}: it has code for {has}", refused=True)
        case None:
            return Judgement(
                Verdict.UNKNOWN, f"compute capability {gpu.arch}: whether its driver compiles PTX of {has} is not known"
            )
        case _:
            return None


def _forward(gpu: Gpu, needs: GpuNeeds) -> Judgement:
    words = gpu.name.split()
    if any(word in CONSUMER for word in words):
        return Judgement(
            Verdict.FORWARD, f"cuda-compat {needs.compat} does not work on {gpu.name} (error 804)", refused=True
        )
    if any(part in DATA_CENTRE for word in words for part in (word, word.partition("-")[0])):
        return Judgement(
            Verdict.FORWARD,
            f"by cuda-compat {needs.compat}: driver {gpu.driver} by itself does not know CUDA {needs.cuda}",
        )
    return Judgement(Verdict.UNKNOWN, f"whether cuda-compat works on {gpu.name or 'its GPU'} is not known")


def knows_cuda(driver: str, named: str, cuda: str) -> bool | None:
    """Return whether a driver compiles PTX of this CUDA version; None if that is unknown.

    The version that the driver itself `named` decides; if it named none, the table does.
    """
    if named and cuda:
        return not older(named, cuda)
    return _branch(driver) >= _branch(SHIPPED[cuda]) if cuda in SHIPPED else None


def _major(cuda: str | None) -> str:
    return (cuda or "").partition(".")[0]


def _branch(driver: str) -> int:
    return next(iter(numbers(driver)), 0)


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
