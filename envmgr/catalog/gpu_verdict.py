"""The verdict of an entry on a node: one of eight, by rules over the node's facts, the entry's needs and NVIDIA's
tables. Pure.

modulefiles/gpu_rules.lua has the same rules for the moment of a load. A version without a row in a table is unknown,
never guessed.

"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from envmgr.catalog.cuda_drivers import CONSUMER, DATA_CENTRE, FLOORS, SHIPPED
from envmgr.catalog.gpu_codes import Gpu, GpuFacts, GpuNeeds, is_capability, runs
from envmgr.catalog.versions import numbers, older


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
