"""The system that wheels are for, which need not be this host: its tags, markers, glibc, and the CUDA of the wheels.

Everywhere `python` is a version (3.11 or 3.11.7) and `platform` a platform in uv's words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from envmgr.catalog.names import older

if TYPE_CHECKING:  # slow to import: a lock is read without them
    from packaging.markers import Environment, Marker
    from packaging.tags import Tag

# Source: PEP 600, and PEP 513, 571, 599 for the names before it.
_OLD_NAMES = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}


def target_tags(python: str, platform: str) -> list[Tag]:
    """Return the tags of wheels that run there, best first.

    Source: packaging.python.org, "Platform compatibility tags"; PEP 600.
    """
    from packaging.tags import compatible_tags, cpython_tags

    major, minor = (int(part) for part in python.split(".")[:2])
    arch, _, glibc = platform.partition("-manylinux_2_")
    names: list[str] = []
    # 4 ends the range, because manylinux1, the oldest of these tags, is glibc 2.5.
    for newest in range(int(glibc), 4, -1):
        names.append(f"manylinux_2_{newest}_{arch}")
        # manylinux2014 was the first of these names for other machines than x86.
        if (2, newest) in _OLD_NAMES and (arch == "x86_64" or newest == 17):
            names.append(f"{_OLD_NAMES[2, newest]}_{arch}")
    # PyPI refuses this tag, but other indexes and folders have such wheels.
    names.append(f"linux_{arch}")
    interpreter = f"cp{major}{minor}"
    return [*cpython_tags((major, minor), platforms=names), *compatible_tags((major, minor), interpreter, names)]


def glibc_of(platform: str) -> str:
    """Return the oldest glibc of a platform: 2.28 of `x86_64-manylinux_2_28`."""
    return platform.partition("-manylinux_")[2].replace("_", ".")


def target_environment(python: str, platform: str) -> Environment:
    """Return the values of markers there. The kernel is unknown: uv leaves its values empty, too."""
    from packaging.markers import default_environment

    environment = default_environment()
    environment |= {
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": python,
        "implementation_version": python,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_machine": platform.partition("-")[0],
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "platform_release": "",
        "platform_version": "",
    }
    return environment


def marker_holds(marker: Marker | None, python: str, platform: str) -> bool:
    """Return True if a row of Requires-Dist counts there when no extra is asked for."""
    if marker is None:
        return True
    return marker.evaluate(cast("dict[str, str]", {**target_environment(python, platform), "extra": ""}))


_RUNTIME = re.compile(r"nvidia-cuda-runtime(-cu(?P<major>\d+))?")  # its version is CUDA's
# Names with the major, also of other authors: `cupy-cuda12x`, `cudf-cu12`, `jax-cuda12-plugin`.
_NAMED = re.compile(r"[a-z0-9-]+-cu(da)?(?P<major>1\d)(\dx?|x)?(-[a-z]+)?")
# A local version: `+cu118`, `+pt25cu124`, `+cu12torch2.5`, `+cuda12.cudnn89`.
_LOCAL = re.compile(r"\+(?:.*[^a-z])??(?:[a-z]+\d+)?cu(?:da)?(?P<major>1\d)(?P<minor>\d{1,2}(?!\d))?")
# NVIDIA's own libraries without a number in their name, whose major is CUDA's.
_OF_ITS_MAJOR = re.compile(r"nvidia-(cuda-[a-z]+|nvjitlink|nvtx|cublas)|cuda-toolkit")
# NVIDIA's own libraries whose whole version is CUDA's.
_OF_ITS_VERSION = re.compile(r"nvidia-(cuda-(runtime|nvrtc|cupti)|nvjitlink)(-cu\d+)?")
# Libraries for communication: programs that run without a GPU ask for them, too.
_COMMUNICATION = re.compile(r"nvidia-(nccl|nvshmem)-cu\d+ ")
_MAJORS = range(8, 30)


def cuda_of_wheels(versions: Mapping[str, str]) -> str | None:
    """Return the CUDA version of an environment, as `12.1`; None without CUDA.

    NVIDIA's runtime decides; without it a local version (`+cu118`).
    """
    for name, version in versions.items():
        if _RUNTIME.fullmatch(name) and _is_major(version.partition(".")[0]):
            return _minor(version)
    for version in versions.values():
        if (local := _LOCAL.search(version)) and local["minor"]:
            return f"{local['major']}.{local['minor']}"
    return None


def cuda_majors(versions: Mapping[str, str]) -> dict[str, list[str]]:
    """Map each CUDA major to `name version` of the packages that are made for it.

    Empty if there are only libraries for communication.
    """
    found: dict[str, list[str]] = {}
    for name, version in versions.items():
        major = ""
        if named := _NAMED.fullmatch(name):
            major = named["major"]
        elif _OF_ITS_MAJOR.fullmatch(name):
            major = version.partition(".")[0]
        elif local := _LOCAL.search(version):
            major = local["major"]
        if _is_major(major):
            found.setdefault(major, []).append(f"{name} {version}")
    only_communication = all(_COMMUNICATION.match(each) for names in found.values() for each in names)
    return {} if only_communication else found


def newer_than_cuda(versions: Mapping[str, str]) -> list[str]:
    """Return `name version` of NVIDIA's libraries that belong to a later CUDA than the runtime.

    Some packages do not say which version of them they need.
    """
    cuda = cuda_of_wheels(versions)
    return [
        f"{name} {version}"
        for name, version in versions.items()
        if cuda is not None and _OF_ITS_VERSION.fullmatch(name) and older(cuda, _minor(version))
    ]


def _is_major(text: str) -> bool:
    return text.isdecimal() and int(text) in _MAJORS  # not so in `1!12` and `v12`, which are good versions, too


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
