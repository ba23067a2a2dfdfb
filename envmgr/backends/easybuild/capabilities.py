"""For which GPUs software is compiled: the settings' names, what may be said, and what one easyconfig gets of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, BeforeValidator

from envmgr.catalog.gpu_codes import parse_code

Setting = Literal["cuda_compute_capabilities", "amdgcn_capabilities"]
CUDA: Setting = "cuda_compute_capabilities"
AMD: Setting = "amdgcn_capabilities"
SETTINGS: tuple[Setting, ...] = (CUDA, AMD)
FIELDS: Mapping[Setting, str] = {setting: f"backends.easybuild.{setting}" for setting in SETTINGS}
VENDORS: Mapping[Setting, str] = {CUDA: "nvidia", AMD: "amd"}
EXAMPLES: Mapping[Setting, str] = {CUDA: '["7.5", "8.6"]', AMD: '["gfx90a"]'}


# Whose easyblocks take the first of several, sorted as texts, with a warning. Source: easybuild-easyblocks 5.4.1, kokkos.py, lammps.py.
ONE_OF_SEVERAL = ("Kokkos", "LAMMPS")


def _texts(example: str) -> Callable[[object], object]:
    """YAML reads 8.0 as a number."""

    def check(values: object) -> object:
        if not isinstance(values, (list, tuple)) or not all(isinstance(each, str) for each in values):
            raise ValueError(f"must be a list of texts in quotes, such as {example}")
        return values

    return check


def _cuda(values: tuple[str, ...]) -> tuple[str, ...]:
    """By capability, each once. Source: EasyBuild 5.4.1, `--cuda-compute-capabilities`: it takes no +PTX."""
    codes = {parse_code(each) for each in values}
    if ptx := [code for code in codes if code.ptx]:
        raise ValueError(f"`{ptx[0]}`: EasyBuild takes capabilities without +PTX")
    return tuple(str(code) for code in sorted(codes))


def _amd(values: tuple[str, ...]) -> tuple[str, ...]:
    """Source: EasyBuild 5.4.1, `--amdgcn-capabilities`; LLVM, "User Guide for AMDGPU Backend", processors."""
    for each in values:
        if not re.fullmatch(r"gfx[0-9]+([a-z]?|(-[0-9])?-generic)", each):
            raise ValueError(f"`{each}` is not an architecture of AMD's GPUs such as gfx90a, gfx1100 or gfx11-generic")
    return tuple(sorted(set(values)))


CudaCapabilities = Annotated[tuple[str, ...], BeforeValidator(_texts(EXAMPLES[CUDA])), AfterValidator(_cuda)]
AmdCapabilities = Annotated[tuple[str, ...], BeforeValidator(_texts(EXAMPLES[AMD])), AfterValidator(_amd)]


class Says(Protocol):
    """A recipe's input, the site's settings, a lock."""

    @property
    def cuda_compute_capabilities(self) -> tuple[str, ...]: ...
    @property
    def amdgcn_capabilities(self) -> tuple[str, ...]: ...


def said_by(*each: Says) -> dict[Setting, tuple[str, ...]]:
    """What holds: of each setting, what the first of them says that says anything; empty where none does."""
    return {
        CUDA: next((one.cuda_compute_capabilities for one in each if one.cuda_compute_capabilities), ()),
        AMD: next((one.amdgcn_capabilities for one in each if one.amdgcn_capabilities), ()),
    }


def handed_to(asks: Iterable[Setting], said: Mapping[Setting, Sequence[str]]) -> dict[str, list[str]]:
    """The options of EasyBuild for an easyconfig that asks for these settings: part of its digest. None where nothing is said."""
    return {setting.replace("_", "-"): list(said[setting]) for setting in asks if said[setting]}
