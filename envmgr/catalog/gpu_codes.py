"""GPUs of a node, and the machine code that an entry has for them (`8.6`, `9.0+PTX`, `9.0a`, `10.0f`).

Source: NVIDIA, CUDA C++ Programming Guide: binary compatibility (code for X.y runs on X.z with z >= y, and on no other
X), PTX compatibility (compiled by the driver for its capability and every newer one), architecture- and family-specific
code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from envmgr.system.models import FrozenModel


class Gpu(FrozenModel):
    """One GPU. `arch` is NVIDIA's compute capability (`7.5`) or AMD's target (`gfx90a`); empty if the node did not
    report it (hidden).

    `driver` is the version of the loaded kernel module that drives it. It is empty if nothing drives it, None if it
    could not be read.
    """

    vendor: str
    arch: str = ""
    name: str = ""
    driver: str | None = None


class GpuFacts(FrozenModel):
    """The GPUs of a node and their driver.

    `gpus` is None if this was not checked. `library` is the version of libcuda.so.1: empty if there is none, None if it
    was not checked. `cuda` is the CUDA version that the driver itself reports; empty if it was not asked.
    """

    gpus: tuple[Gpu, ...] | None = None
    library: str | None = None
    cuda: str = ""


_CODE = re.compile(r"(\d{1,2})\.(\d)([af]?)(\+PTX)?")


@dataclass(frozen=True, slots=True, order=True)
class Code:
    """Machine code for one capability. `only` is `a` (only that capability) or `f` (its family). `ptx`: it includes
    code to be compiled.
    """

    major: int
    minor: int
    only: str = ""
    ptx: bool = False

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{self.only}{'+PTX' if self.ptx else ''}"


def is_capability(text: str) -> bool:
    """Return whether `text` is a GPU's compute capability, such as `7.5`."""
    return re.fullmatch(r"\d{1,2}\.\d", text) is not None


def parse_code(text: str) -> Code:
    """Return the code that `text` names. Raise ValueError."""
    match = _CODE.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is not a compute capability such as 7.5, 9.0+PTX, 9.0a or 10.0f")
    return Code(int(match[1]), int(match[2]), match[3], match[4] is not None)


# Of GPUs that there are, to compare what two lists say. Source: NVIDIA, "CUDA GPUs", compute capabilities.
_GPUS = tuple("3.5 3.7 5.0 5.2 6.0 6.1 7.0 7.5 8.0 8.6 8.9 9.0 10.0 10.3 12.0 12.1".split())


def same_effect(one: Iterable[str], other: Iterable[str]) -> bool:
    """Return whether two lists have code for the same GPUs, compiled or not."""
    here, there = [parse_code(each) for each in one], [parse_code(each) for each in other]
    return all(runs(here, gpu, jit=jit) == runs(there, gpu, jit=jit) for gpu in _GPUS for jit in (True, False))


# Source: LLVM, "User Guide for AMDGPU Backend", generic processors.
_GENERIC = {
    "gfx9-generic": "gfx90[02469c]",
    "gfx9-4-generic": "gfx9(4[0-2]|50)",
    "gfx10-1-generic": "gfx101[0-3]",
    "gfx10-3-generic": "gfx103[0-6]",
    "gfx11-generic": "gfx11(0[0-3]|5[0-3])",
    "gfx12-generic": "gfx120[01]",
}


def covers(vendor: str, values: Iterable[str], arch: str) -> bool | None:
    """Return whether code compiled for `values` runs on a GPU of this capability, or of this AMD architecture.

    None is unknown: a generic architecture that has no row here.
    """
    if vendor == "nvidia":
        return runs(map(parse_code, values), arch, jit=False)
    said = list(values)
    if arch in said or any(re.fullmatch(_GENERIC[each], arch) for each in said if each in _GENERIC):
        return True
    return None if any(each.endswith("-generic") and each not in _GENERIC for each in said) else False


def runs(codes: Iterable[Code], capability: str, *, jit: bool | None) -> bool | None:
    """Return whether one of `codes` runs on a GPU of this capability; None if that is unknown.

    `jit` says whether the node's driver compiles the PTX of `codes`.
    """
    gpu = parse_code(capability)
    found: list[bool | None] = [False]
    for code in codes:
        same, newer = gpu.major == code.major, (gpu.major, gpu.minor) >= (code.major, code.minor)
        fits = newer and same and (code.only != "a" or gpu.minor == code.minor)
        found.append(True if fits else jit if code.ptx and not code.only and newer else False)
    return True if True in found else None if None in found else False


class GpuNeeds(FrozenModel):
    """The needs of an entry. `cuda` is the version in its lock (`12.1`): empty if unknown, None if the lock has no
    CUDA.

    `codes` (`8.6`, `9.0+PTX`) are None if unknown; they do not matter without CUDA. `compat` is the version of
    `cuda-compat` in the lock. `driver` is a minimum that the recipe names.
    """

    cuda: str | None = ""
    codes: tuple[str, ...] | None = None
    compat: str = ""
    driver: str = ""

    def parsed(self) -> tuple[Code, ...] | None:
        return None if self.codes is None else tuple(map(parse_code, self.codes))


def short_cuda(version: str | None) -> str | None:
    """Return `12.1` for `12.1.105`; None stays None."""
    return None if version is None else ".".join(version.split(".")[:2])
