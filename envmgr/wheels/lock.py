"""A lock of wheels as data: one file for each package, exactly. Files that hold it are read and written by the backends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pydantic import Field

from envmgr.catalog.versions import older
from envmgr.system.models import FrozenModel

if TYPE_CHECKING:
    from envmgr.wheels.closure import Part

# Whose version is the CUDA version that an environment was made for. Source: the names of NVIDIA's wheels; from 13 on they
# have no number.
_CUDA_RUNTIME = re.compile(r"nvidia-cuda-runtime(-cu(?P<major>\d+))?")
# Also of others' wheels: `cupy-cuda12x`, `cudf-cu12`, `jax-cuda12-plugin`.
_OF_CUDA = re.compile(r"[a-z0-9-]+-cu(da)?(?P<major>1\d)(\dx?|x)?(-[a-z]+)?")
# A local version: `+cu118`, `+pt25cu124`, `+cu12torch2.5`, `+cuda12.cudnn89`.
_LOCAL = re.compile(r"\+(?:.*[^a-z])??(?:[a-z]+\d+)?cu(?:da)?(?P<major>1\d)(?P<minor>\d{1,2}(?!\d))?")
# Of NVIDIA's own libraries without a number in their name, those whose major is CUDA's.
_OF_ITS_MAJOR = re.compile(r"nvidia-(cuda-[a-z]+|nvjitlink|nvtx|cublas)|cuda-toolkit")
_HELPER = re.compile(r"nvidia-(nccl|nvshmem)-cu\d+ ")
_MAJORS = range(8, 30)
# Of NVIDIA's own libraries from 13 on, those whose version is CUDA's.
_VERSIONED = re.compile(r"nvidia-(cuda-(runtime|nvrtc|cupti)|nvjitlink)(-cu\d+)?")


# An install is about this many times as large as its wheels (measured over torch, tensorflow, Jupyter).
WHEEL_UNPACKED = 2


class LockedWheel(FrozenModel):
    """One wheel. `name` is normalised, `index` the name of the site's index that it was found in; `size` is bytes.

    `url` is where the lock says that the file lies; a wheel of no index is had there. `uploaded` is UTC, as the index has it;
    `requires` is Requires-Dist. `size` and `requires` are None, and `uploaded` empty, where the index does not tell them.
    """

    name: str = Field(max_length=200)
    version: str = Field(max_length=200)
    file: str = Field(max_length=400, pattern=r"^[A-Za-z0-9_.!+-]+\.whl$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    index: str
    size: int | None = None
    uploaded: str = ""
    requires: tuple[str, ...] | None = None
    url: str | None = None


class LockedPatch(FrozenModel):
    """A file beside the recipe."""

    file: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class LockedSdist(FrozenModel):
    """One source, of which a wheel is built; its fields as a wheel's. `requires` is what that wheel will have as Requires-Dist.

    `build` are the wheels that it is built with, sorted by name: what its pyproject.toml names, and what its build asks for. `asks` are
    these rows; None in locks of an earlier envmgr.
    """

    name: str = Field(max_length=200)
    version: str = Field(max_length=200)
    file: str = Field(max_length=400, pattern=r"^[A-Za-z0-9_.!+-]+\.(tar\.gz|zip)$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    index: str
    size: int | None = None
    uploaded: str = ""
    requires: tuple[str, ...] = ()
    build: tuple[LockedWheel, ...]
    asks: tuple[str, ...] | None = None
    patches: tuple[LockedPatch, ...] = ()

    @property
    def parts(self) -> dict[str, Part]:
        """What it is built with, and what the lock says that these need."""
        from envmgr.wheels.closure import Part

        return {wheel.name: Part(wheel.version, wheel.requires) for wheel in self.build}

    def identity(self) -> list[object]:
        """What of it decides the bytes of its wheel."""
        return [
            self.name,
            self.version,
            self.file,
            self.sha256,
            [[wheel.name, wheel.version, wheel.file, wheel.sha256] for wheel in self.build],
            [patch.sha256 for patch in self.patches],
        ]


LockedFile = LockedWheel | LockedSdist


class WheelSet(FrozenModel):
    """What requirements resolved to, sorted by name. `python` is the version that the wheels are for, `platform` in uv's words."""

    python: str
    platform: str
    uv: str
    exclude_newer: str | None = None
    wheels: tuple[LockedWheel, ...]

    @property
    def versions(self) -> dict[str, str]:
        return {wheel.name: wheel.version for wheel in self.wheels}

    @property
    def groups(self) -> tuple[tuple[LockedFile, ...], ...]:
        """All files, in groups that can be asked for at once: of a package one version each."""
        return (self.wheels,)

    @property
    def files(self) -> tuple[LockedFile, ...]:
        """All files that a build needs, each once."""
        return tuple({each.sha256: each for group in self.groups for each in group}.values())

    def identity(self) -> list[list[str]]:
        """What of its wheels decides an install's bytes."""
        return [[wheel.name, wheel.version, wheel.file, wheel.sha256] for wheel in self.wheels]


def describe(packages: Iterable[LockedFile]) -> dict[str, str]:
    """name -> `version tags`, or `version source`, as diffs, generations and plans show a package."""
    return {each.name: f"{each.version} {_kind(each)}" for each in packages}


def _kind(each: LockedFile) -> str:
    return "source" if isinstance(each, LockedSdist) else "-".join(each.file.removesuffix(".whl").split("-")[-3:])


def cuda_of(versions: Mapping[str, str]) -> str | None:
    """The CUDA version of an environment, as `12.1`; None without CUDA. By NVIDIA's runtime, else by a local version (`+cu118`)."""
    for name, version in versions.items():
        major = version.partition(".")[0]  # `1!12` and `v12` are good versions, too
        if _CUDA_RUNTIME.fullmatch(name) and major.isdecimal() and int(major) in _MAJORS:
            return ".".join(version.split(".")[:2])
    for version in versions.values():
        if (local := _LOCAL.search(version)) and local["minor"]:
            return f"{local['major']}.{local['minor']}"
    return None


def cuda_majors(versions: Mapping[str, str]) -> dict[str, list[str]]:
    """CUDA major -> `name version` of the packages that are made for it. Empty where only libraries for communication are: programs
    that run without a GPU ask for those, too.
    """
    found: dict[str, list[str]] = {}
    for name, version in versions.items():
        major = ""
        if own := _OF_CUDA.fullmatch(name):
            major = own["major"]
        elif _OF_ITS_MAJOR.fullmatch(name):
            major = version.partition(".")[0]
        elif local := _LOCAL.search(version):
            major = local["major"]
        if major.isdecimal() and int(major) in _MAJORS:
            found.setdefault(major, []).append(f"{name} {version}")
    alone = all(_HELPER.match(each) for names in found.values() for each in names)
    return {} if alone else found


def newer_than_cuda(versions: Mapping[str, str]) -> list[str]:
    """`name version` of NVIDIA's libraries that belong to a later CUDA than the runtime: some packages leave that open."""
    cuda = cuda_of(versions)
    if cuda is None:
        return []
    return [
        f"{name} {version}"
        for name, version in versions.items()
        if _VERSIONED.fullmatch(name) and older(cuda, ".".join(version.split(".")[:2]))
    ]


def glibc_of(wheels: Iterable[LockedWheel]) -> str | None:
    """The oldest glibc that all wheels run on: of each the lowest of its tags, of all the highest. None where none needs one.

    Source: PEP 600, and PEP 513, 571, 599 for the names before it.
    """
    old = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
    from packaging.utils import parse_wheel_filename  # slow to import

    needed: list[tuple[int, int]] = []
    for wheel in wheels:
        found: list[tuple[int, int]] = []
        for tag in parse_wheel_filename(wheel.file)[3]:
            if match := re.match(r"manylinux_(\d+)_(\d+)_", tag.platform):
                found.append((int(match[1]), int(match[2])))
            elif (name := tag.platform.partition("_")[0]) in old:
                found.append(old[name])
        if found:
            needed.append(min(found))
    return ".".join(map(str, max(needed))) if needed else None
