"""What a recipe of the EasyBuild backend says, and the settings that follow from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import Field, field_validator

from envmgr.backends.easybuild.capabilities import SETTINGS, AmdCapabilities, CudaCapabilities
from envmgr.catalog.locks import recipe_digest
from envmgr.catalog.target import CpuLevel
from envmgr.system.models import FrozenModel

EASYBUILD = "5.4.1"
"""The version that a recipe is locked with when it names none. Source: the release that all of this was tried with."""


class EasyBuildInput(FrozenModel):
    """`input` of a recipe: the easyconfig's file name, and the configuration that matters.

    `unhashed` names sources for which the easyconfig has no sha256, each with the reason why that is accepted. The capabilities are
    those of the GPUs to compile for; the site's where they are empty.
    """

    easyconfig: str
    easybuild: str = EASYBUILD
    accept_eula: tuple[str, ...] = ()
    rpath: bool = False
    filter_deps: tuple[str, ...] = ()
    unhashed: dict[str, str] = Field(default={})
    cuda_compute_capabilities: CudaCapabilities = ()
    amdgcn_capabilities: AmdCapabilities = ()

    @field_validator("easyconfig")
    @classmethod
    def _file_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*\.eb", value):
            raise ValueError("must be the file name of an easyconfig, such as zlib-1.3.1.eb")
        return value

    @field_validator("easybuild")
    @classmethod
    def _version(cls, value: str) -> str:
        if not re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}", value):
            raise ValueError("must be a released version, such as 5.4.1")
        if int(value.partition(".")[0]) < 5:
            raise ValueError("must be 5.0.0 or newer: the exit codes and hooks of older ones are not understood")
        return value

    @field_validator("accept_eula", "filter_deps")
    @classmethod
    def _names(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", value):
                raise ValueError(f"`{value}` is not the name of a software")
        return tuple(sorted(values))

    @field_validator("unhashed")
    @classmethod
    def _reasons(cls, values: dict[str, str]) -> dict[str, str]:
        if empty := [name for name, why in values.items() if not why.strip()]:
            raise ValueError(f"`{empty[0]}` needs a reason")
        return values

    def digest(self) -> str:
        """Of what a lock answers. A recipe that says nothing of GPUs has the digest of before they could be said."""
        unsaid: set[str] = {setting for setting in SETTINGS if not getattr(self, setting)}
        return recipe_digest("easybuild", self.model_dump(mode="json", exclude=unsaid))


def eula_word(software: str) -> str:
    """`CUDA` -> `cuda-eula`."""
    return f"{software.lower()}-eula"


def accept_eula_for(names: Sequence[str]) -> str:
    """The value of EasyBuild's `--accept-eula-for`, whose names are the beginnings of regular expressions: these and no others."""
    return ",".join(f"{re.escape(name)}$" for name in names)


def configuration(
    rpath: bool, filter_deps: Sequence[str], cpu_level: CpuLevel, capabilities: Mapping[str, list[str]]
) -> dict[str, object]:
    """The settings of EasyBuild that shape an install's bytes: part of its digest, and of the command that builds it.

    `capabilities` are for an easyconfig that asks for them: see `handed_to`.
    """
    return {"rpath": rpath, "filter-deps": list(filter_deps), "optarch": optarch(cpu_level), **capabilities}


# By compiler family as EasyBuild names it (COMPILER_FAMILY), and `rustc`, which its easyblock of Rust packages asks for; that one
# wants no dash. Its easyblock of Go packages reads the level at the end of the text.
_LIKE_GCC = ("Clang", "ClangGCC", "GCC", "LLVM", "ROCm", "SYSTEM")
# Names that icc, ifort, icx and ifx share. What these chips have beyond the level, no compiler uses by itself.
_INTEL = {"x86-64-v2": "-march=corei7", "x86-64-v3": "-march=core-avx2", "x86-64-v4": "-march=skylake-avx512"}
# None of its names is surely x86-64-v2 or -v4 and no more.
_NVHPC = {"x86-64-v3": "-tp=haswell", "x86-64-v4": "-tp=haswell"}
# Cannot say a level, or are not for x86-64: EasyBuild's own lowest.
_LOWEST = ("CrayCE", "Fujitsu", "IBMXL", "PGI", "xlcxlf")


def optarch(cpu_level: CpuLevel) -> str:
    """EasyBuild's `--optarch` for a CPU level: a text for each compiler, as one without gets the build host's own CPU.

    No flag asks for more than the level; some for less. Cray's wrappers take no such list: EasyBuild refuses to build with them.

    Source: EasyBuild's documentation, "Controlling compiler optimization flags"; the manuals of the compilers.
    """
    if cpu_level in ("x86-64", "aarch64"):
        return "GENERIC"
    flags = dict.fromkeys(_LIKE_GCC, f"-mtune=generic -march={cpu_level}") | dict.fromkeys(_LOWEST, "GENERIC")
    flags |= {
        "Intel": _INTEL[cpu_level],
        "NVHPC": _NVHPC.get(cpu_level, "GENERIC"),
        "rustc": f"C target-cpu={cpu_level}",
    }
    return ";".join(f"{compiler}:{text}" for compiler, text in sorted(flags.items()))
