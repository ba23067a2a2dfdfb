"""The verdict of an entry on a node: one of eight, by rules over the node's facts, the entry's needs and NVIDIA's
tables. Pure.

modulefiles/gpu_rules.lua has the same rules for the moment of a load. A version without a row in a table is unknown,
never guessed.

Source:
    FLOORS: NVIDIA, "CUDA Compatibility", minimum drivers for minor-version compatibility: a toolkit of major version M
        runs on any driver that is at least M's first supported one.
    SHIPPED: the driver that a toolkit's installer brings, by the installer's name (`cuda_12.1.0_530.30.02_linux.run`),
        read on 2026-11-22. Release notes name lower minima within one branch, so only branches (the first number) are
        compared. 11.0 to 11.2, 12.7 and 13.4 are missing: no name was at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from envmgr.catalog.gpu_codes import Gpu, GpuFacts, GpuNeeds, is_capability, runs
from envmgr.catalog.versions import numbers, older

# CUDA major -> the oldest driver that runs its machine code.
FLOORS = {"11": "450.80.02", "12": "525.60.13", "13": "580.65.06"}

# CUDA version -> the driver of its toolkit: one of its branch, or of a later one, compiles its PTX.
SHIPPED = {
    "11.3": "465.19.01",
    "11.4": "470.57.02",
    "11.5": "495.29.05",
    "11.6": "510.39.01",
    "11.7": "515.43.04",
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.86.10",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
    "13.3": "610.43.02",
}

# What forward compatibility (`cuda-compat`) is for, by the names of GPUs. Source: NVIDIA, "CUDA Compatibility", forward
# compatibility: data centre GPUs; GeForce ends with error 804. Others (TITAN, RTX for workstations) are known as
# neither.
DATA_CENTRE = tuple(
    """
    Tesla A2 A10 A16 A30 A40 A100 A800 H100 H200 H800 H20 GH200 L4 L20 L40 L40S B100 B200 B300 GB200 GB300 T4 V100
    P100 P40 P4 K80
    """.split()
)
CONSUMER = ("GeForce",)


def toolkit_driver(cuda: str) -> str:
    """The driver that the toolkit brings; empty where no table tells."""
    return SHIPPED.get(cuda, "")


def minimum_driver(cuda_version: str) -> str | None:
    """The oldest driver for a CUDA version such as `11.8`; None where the table has no row."""
    return FLOORS.get(cuda_version.partition(".")[0])


def driver_faults(cuda: str, required: str | None) -> list[str]:
    """Return what is wrong with a recipe that requires driver `required` (None: no driver) while its lock has this
    CUDA.
    """
    needed = minimum_driver(cuda)
    if required is None:
        return [f"requires.nvidia_driver: the lock has CUDA {cuda}, which needs a driver >= {needed or '(see NVIDIA)'}"]
    if needed and numbers(required) < numbers(needed):
        return [f"requires.nvidia_driver: CUDA {cuda} needs >= {needed}, the recipe says {required}"]
    return []


class Verdict(StrEnum):
    """Best first, as far as one GPU of several decides; `no-gpu` stands for a node without any."""

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
    """`refused`: the policy `refuse` does not load it there."""

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
        return Judgement(Verdict.UNKNOWN, f"the compute capability of {gpu.name or 'its GPU'} was not told")
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
            Verdict.FORWARD, f"by cuda-compat {needs.compat}: driver {gpu.driver} alone does not know CUDA {needs.cuda}"
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
