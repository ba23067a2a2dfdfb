"""The settings of a recipe and of the site for EasyBuild, and the options of EasyBuild that follow from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, field_validator

from envmgr.catalog.gpus import parse_code
from envmgr.catalog.locks import recipe_digest
from envmgr.catalog.settings import SiteFact, backend_settings, folder_fault
from envmgr.catalog.site import Site
from envmgr.catalog.site_file import CpuLevel
from envmgr.system.files import shipped
from envmgr.system.models import FrozenModel, refuse

EASYBUILD = "5.4.1"
"""The version that locks a recipe that names none. Source: the release that all of this was tried with."""

Setting = Literal["cuda_compute_capabilities", "amdgcn_capabilities"]
CUDA: Setting = "cuda_compute_capabilities"
AMD: Setting = "amdgcn_capabilities"
SETTINGS: tuple[Setting, ...] = (CUDA, AMD)
FIELDS: Mapping[Setting, str] = {setting: f"backends.easybuild.{setting}" for setting in SETTINGS}
VENDORS: Mapping[Setting, str] = {CUDA: "nvidia", AMD: "amd"}
EXAMPLES: Mapping[Setting, str] = {CUDA: '["7.5", "8.6"]', AMD: '["gfx90a"]'}
_SOFTWARE = r"[A-Za-z0-9][A-Za-z0-9._+-]*"


def _texts(example: str) -> Callable[[object], object]:
    """Return a validator that refuses numbers: YAML reads 8.0 as one."""

    def check(values: object) -> object:
        if not isinstance(values, (list, tuple)) or not all(isinstance(each, str) for each in values):
            raise ValueError(f"must be a list of texts in quotes, such as {example}")
        return values

    return check


def _cuda(values: tuple[str, ...]) -> tuple[str, ...]:
    """Sort by capability, each once. Source: EasyBuild 5.4.1, `--cuda-compute-capabilities`: it takes no +PTX."""
    codes = {parse_code(each) for each in values}
    if ptx := [code for code in codes if code.ptx]:
        raise ValueError(f"`{ptx[0]}`: EasyBuild takes capabilities without +PTX")
    return tuple(str(code) for code in sorted(codes))


def _amd(values: tuple[str, ...]) -> tuple[str, ...]:
    """Check the architectures of AMD's GPUs, and sort them, each once.

    Source: EasyBuild 5.4.1, `--amdgcn-capabilities`; LLVM, "User Guide for AMDGPU Backend", processors.
    """
    wrong = (each for each in values if not re.fullmatch(r"gfx[0-9]+([a-z]?|(-[0-9])?-generic)", each))
    refuse(f"`{each}` is not an architecture of AMD's GPUs such as gfx90a, gfx1100 or gfx11-generic" for each in wrong)
    return tuple(sorted(set(values)))


CudaCapabilities = Annotated[tuple[str, ...], BeforeValidator(_texts(EXAMPLES[CUDA])), AfterValidator(_cuda)]
AmdCapabilities = Annotated[tuple[str, ...], BeforeValidator(_texts(EXAMPLES[AMD])), AfterValidator(_amd)]


class EasyBuildInput(FrozenModel):
    """The `input` of a recipe: the easyconfig's file name, and the configuration that matters.

    `unhashed` names sources for which the easyconfig has no sha256, each with the reason why that is accepted. The
    capabilities are those of the GPUs to compile for; if they are empty, the site's are used.
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
        if not re.fullmatch(rf"{_SOFTWARE}\.eb", value):
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
        refuse(f"`{value}` is not the name of a software" for value in values if not re.fullmatch(_SOFTWARE, value))
        return tuple(sorted(values))

    @field_validator("unhashed")
    @classmethod
    def _reasons(cls, values: dict[str, str]) -> dict[str, str]:
        refuse(f"`{name}` needs a reason" for name, why in values.items() if not why.strip())
        return values

    def digest(self) -> str:
        """Return the digest of what a lock answers. Settings of GPUs that are not set do not count."""
        unsaid: set[str] = {setting for setting in SETTINGS if not getattr(self, setting)}
        return recipe_digest("easybuild", self.model_dump(mode="json", exclude=unsaid))


class EasyBuildSettings(FrozenModel):
    """The section `backends.easybuild` of the site."""

    easyconfigs: tuple[Path, ...] = Field(
        default=(),
        description="folders of easyconfigs, searched before those that ship with envmgr and EasyBuild's own",
    )
    cuda_compute_capabilities: CudaCapabilities = Field(
        default=(), description="of the NVIDIA GPUs to compile for, where a recipe does not say its own"
    )
    amdgcn_capabilities: AmdCapabilities = Field(
        default=(), description="the architectures of the AMD GPUs to compile for, where a recipe does not say its own"
    )


def easybuild_settings(site: Site) -> EasyBuildSettings:
    """Return what the site says to this backend."""
    return backend_settings(site, "easybuild", EasyBuildSettings)


def own_easyconfigs(site: Site) -> tuple[Path, ...]:
    """Return the site's own folders of easyconfigs."""
    return tuple(site.absolute(path) for path in easybuild_settings(site).easyconfigs)


def easyconfig_folders(site: Site) -> tuple[Path, ...]:
    """Return the folders that are searched, in this order, before EasyBuild's own: the site's, then envmgr's."""
    return (*own_easyconfigs(site), shipped("easyconfigs"))


def explain_easyconfigs(site: Site) -> Iterator[SiteFact]:
    """Yield what is wrong with the site's own folders, for `check`."""
    field = "backends.easybuild.easyconfigs"
    for folder in own_easyconfigs(site):
        if fault := folder_fault(folder):
            yield SiteFact(field, "error", f"{folder}{fault}", "make it, or take it out")
        elif not any(folder.glob("[a-z0-9]/*/*.eb")) and any(folder.rglob("*.eb")):
            hint = "the layout is `<letter>/<Name>/<file>.eb`"
            yield SiteFact(field, "warning", f"{folder}: its easyconfigs are not where EasyBuild looks", hint)


def said_by(*each: BaseModel) -> dict[Setting, tuple[str, ...]]:
    """Return the values of each setting of GPUs: those of the first of these that has any; empty if none has.

    Each is a recipe's input, the site's settings, or a lock.
    """
    return {setting: next((values for one in each if (values := getattr(one, setting))), ()) for setting in SETTINGS}


def said_now(wanted: EasyBuildInput, site: Site) -> dict[Setting, tuple[str, ...]]:
    """Return the values that hold for a recipe: its own, or else the site's."""
    return said_by(wanted, easybuild_settings(site))


def handed_to(asks: Iterable[Setting], said: Mapping[Setting, Sequence[str]]) -> dict[str, list[str]]:
    """Return EasyBuild's options for an easyconfig that asks for these settings: part of its digest."""
    return {setting.replace("_", "-"): list(said[setting]) for setting in asks if said[setting]}


def eula_word(software: str) -> str:
    """Return the word for `policies.licences`: `CUDA` -> `cuda-eula`."""
    return f"{software.lower()}-eula"


def accept_eula_for(names: Sequence[str]) -> str:
    """Return the value of EasyBuild's `--accept-eula-for` for exactly these names.

    It takes beginnings of regular expressions.
    """
    return ",".join(f"{re.escape(name)}$" for name in names)


# By compiler family as EasyBuild names it (COMPILER_FAMILY), and `rustc`, which its easyblock of Rust packages asks
# for; that one wants no dash. Its easyblock of Go packages reads the level at the end of the text.
_LIKE_GCC = ("Clang", "ClangGCC", "GCC", "LLVM", "ROCm", "SYSTEM")
# Names that icc, ifort, icx and ifx share. What these chips have beyond the level, no compiler uses by itself.
_INTEL = {"x86-64-v2": "-march=corei7", "x86-64-v3": "-march=core-avx2", "x86-64-v4": "-march=skylake-avx512"}
# None of its names is surely x86-64-v2 or -v4 and no more.
_NVHPC = {"x86-64-v3": "-tp=haswell", "x86-64-v4": "-tp=haswell"}
# Cannot say a level, or are not for x86-64: EasyBuild's own lowest.
_LOWEST = ("CrayCE", "Fujitsu", "IBMXL", "PGI", "xlcxlf")


def optarch(cpu_level: CpuLevel) -> str:
    """Return EasyBuild's `--optarch` for a CPU level: a text for each compiler.

    A compiler without one gets the build host's own CPU. No flag asks for more than the level; some ask for less.
    Cray's wrappers take no such list: EasyBuild refuses to build with them.

    Source: EasyBuild's documentation, "Controlling compiler optimization flags"; the manuals of the compilers.
    """
    if cpu_level in ("x86-64", "aarch64"):
        return "GENERIC"
    flags = dict.fromkeys(_LIKE_GCC, f"-mtune=generic -march={cpu_level}") | dict.fromkeys(_LOWEST, "GENERIC")
    flags |= {"Intel": _INTEL[cpu_level], "NVHPC": _NVHPC.get(cpu_level, "GENERIC")}
    flags |= {"rustc": f"C target-cpu={cpu_level}"}
    return ";".join(f"{compiler}:{text}" for compiler, text in sorted(flags.items()))
