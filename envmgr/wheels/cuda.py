"""The CUDA that wheels are made for, by their names and versions.

Source: the names of NVIDIA's wheels. From CUDA 13 on, most of them have no number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from envmgr.catalog.names import older

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
