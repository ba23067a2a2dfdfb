"""GPUs of a node, the machine code that an entry has for them (`8.6`, `9.0+PTX`, `9.0a`, `10.0f`), and their drivers.

Source:
    Code: NVIDIA, CUDA C++ Programming Guide: binary compatibility (code for X.y runs on X.z with z >= y, and on no
        other X), PTX compatibility (compiled by the driver for its capability and every newer one), architecture- and
        family-specific code.
    FLOORS: NVIDIA, "CUDA Compatibility", minimum drivers for minor-version compatibility: a toolkit of major version M
        runs on any driver that is at least M's first supported one.
    SHIPPED: the driver that a toolkit's installer brings, by the installer's name (`cuda_12.1.0_530.30.02_linux.run`),
        read on 2026-11-22. Release notes name lower minima within one branch, so only branches (the first number) are
        compared. 11.0 to 11.2, 12.7 and 13.4 are missing: no name was at hand.

A version without a row in a table is unknown, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from envmgr.catalog.names import numbers
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
    """Return the driver that the toolkit brings; empty if no table has it."""
    return SHIPPED.get(cuda, "")


def minimum_driver(cuda_version: str) -> str | None:
    """Return the oldest driver for a CUDA version such as `11.8`; None if the table has no row."""
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
