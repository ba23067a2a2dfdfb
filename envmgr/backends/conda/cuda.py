"""The CUDA of conda packages: the majors that they are for, and the version that an environment has."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from envmgr.backends.conda.lock import CondaLock, LockedPackage, name_of, row_parts
from envmgr.backends.conda.models import CondaInput
from envmgr.catalog.gpus import short_cuda

# Packages whose version is CUDA's own. Not cuda-compat, which may be newer than the rest, and not Python's cuda-core,
# cuda-pathfinder.
_VERSIONED = re.compile(
    r"cuda|cudatoolkit(-dev)?|pytorch-cuda|lib(cublas|npp|nvjpeg|nvjitlink)(-dev|-static)?"
    r"|cuda-(version|runtime|toolkit|compiler|libraries|cudart|nvrtc|nvtx|cupti|nvcc|nvvm|nvprof|crt|nvdisasm"
    r"|cuobjdump|cuxxfilt|nvprune|tools|command-line-tools|visual-tools|profiler-api|nvml|driver|gdb|sanitizer-api"
    r"|demo-suite|minimal-build)([-_][a-z0-9_-]+)?"
)
_NAMED = re.compile(r".+-cu(?:da)?(1\d)(?:\.?\dx?|x)?")  # magma-cuda121, dgl-cuda11.3
_LOCAL = re.compile(r"[.+]cu(?:da)?(1\d)\d(?:\D|$)")  # the local part of a version: 2.1.0.cu118
_BUILD = re.compile(r"cu(?:da)?_?(\d+)(\.\d+)?")
_ASKED = ("cuda-version", "cudatoolkit", "pytorch-cuda", "cuda-cudart", "libcublas")
_CUDAS = re.compile(r"cuda-|cudatoolkit|pytorch-cuda|lib(cu(blas|dnn|fft|rand|solver|sparse|file)|npp|nvj)|cudnn|nccl")
# Packages that NVIDIA's own channel combines with an older CUDA, with a newer cuda-version: they work with both.
_BESIDE = ("libcurand", "libcurand-dev", "libcufile", "libcufile-dev", "cuda-opencl", "cuda-opencl-dev")
_TOOLKITS = ("pytorch-cuda", "cudatoolkit", "cuda-cudart", "cuda-version")
_MAJORS = range(8, 30)


def cuda_of(lock: CondaLock, wanted: CondaInput) -> str | None:
    """Return the CUDA version of the environment, as `12.1`; empty if only a major is known; None without CUDA."""
    named = named_packages(wanted)
    own = short_cuda(cuda_version(lock.packages, named)) or ("" if conda_majors(lock.packages, named) else None)
    if own or lock.added is None:
        return own
    from envmgr.wheels.target import cuda_of_wheels  # most locks have no wheels

    return cuda_of_wheels(lock.added.versions) or own


def named_packages(wanted: CondaInput) -> frozenset[str]:
    return frozenset(name_of(spec) for spec in wanted.specs)


def conda_majors(packages: Collection[LockedPackage], named: Collection[str] = ()) -> dict[str, list[str]]:
    """Return CUDA major -> `name version` of the packages that are for this major only.

    `named` are the packages that the recipe asks for.
    """
    # Weak evidence counts only where there is no strong evidence: the build string of a package that needs no CUDA
    # package, and libraries that may be newer than CUDA.
    strong: dict[str, list[str]] = {}
    weak: dict[str, list[str]] = {}
    beside = beside_cuda(packages, named)
    for package in packages:
        by_build = _by_build(package)
        certain = _by_name(package) | _by_need(package)
        for major in sorted(certain | by_build):
            only_build = major not in certain and bool(package.depends) and not _needs_cuda(package)
            into = weak if package.name in beside or only_build else strong
            into.setdefault(major, []).append(f"{package.name} {package.version}")
    return strong or weak


def cuda_version(packages: Collection[LockedPackage], named: Collection[str] = ()) -> str | None:
    """Return the toolkit's version, from `cuda-version` unless only libraries that may be newer than CUDA brought
    it.
    """
    beside = beside_cuda(packages, named)
    versions = {package.name: package.version for package in packages if package.name not in beside}
    order = ("cuda-version", *_TOOLKITS[:-1]) if "cuda-version" in versions else _TOOLKITS
    return next((versions[name] for name in order if name in versions), None)


def beside_cuda(packages: Collection[LockedPackage], named: Collection[str]) -> frozenset[str]:
    """Return the libraries that may be newer than CUDA.

    `cuda-version` is included if only they ask for it and another toolkit package is present.
    """
    toolkit = {package.name for package in packages} & set(_TOOLKITS[:-1])
    asking = {p.name for p in packages if any(name_of(row) == "cuda-version" for row in p.depends)}
    only = toolkit and asking and asking <= set(_BESIDE) and "cuda-version" not in named
    return frozenset((*_BESIDE, "cuda-version") if only else _BESIDE if toolkit else ())


def _by_name(package: LockedPackage) -> set[str]:
    if _VERSIONED.fullmatch(package.name):
        return _known({package.version.partition(".")[0]})
    named = _NAMED.fullmatch(package.name) or _LOCAL.search(package.version)
    return _known({named[1]}) if named else set()


def _by_need(package: LockedPackage) -> set[str]:
    if package.name.startswith("cuda-compat"):
        # A cuda-compat may be newer than the rest of an environment.
        return set()
    return _known({str(min(each)) for _, each in asked(package.depends) if len(each) == 1})


def _by_build(package: LockedPackage) -> set[str]:
    return _known({_major_of(digits, whole=bool(minor)) for digits, minor in _BUILD.findall(package.build)})


def _needs_cuda(package: LockedPackage) -> bool:
    return any(_CUDAS.match(name_of(row)) for row in package.depends)


def _known(majors: set[str]) -> set[str]:
    return {each for each in majors if each.isdecimal() and int(each) in _MAJORS}


def _major_of(digits: str, *, whole: bool) -> str:
    """Return the major in the digits: `118` is CUDA 11.8, `12` is CUDA 12, `92` is CUDA 9.2. `whole`: a minor follows
    after a dot.
    """
    if whole or (len(digits) == 2 and digits[0] == "1"):
        return digits
    return digits[0] if len(digits) == 2 else digits[:2]


def asked(rows: Iterable[str]) -> Iterator[tuple[str, set[int]]]:
    """Yield the name and the possible majors for each row that asks for a CUDA package and limits its majors."""
    for row in rows:
        if name_of(row) not in _ASKED:  # most rows: the rest of them is not read
            continue
        name, version, _ = row_parts(row)
        if version:
            allowed = {major for major in _MAJORS if _allows(version, major)}
            if 0 < len(allowed) < len(_MAJORS):
                yield name, allowed


def _allows(version: str, major: int) -> bool:
    """Return whether some version of this major fits `>=11.8,<12`, `11.*`, `>=12,<13.0a0|>=13`."""
    return any(
        all(_fits(term, major) for term in each.split(",")) for each in re.sub(r"[()\s]", "", version).split("|")
    )


def _fits(term: str, major: int) -> bool:
    match = re.fullmatch(r"(>=|<=|==|~=|!=|>|<|=)?(\d+)((?:\.[\da-z*]+)*)\*?", term)
    if match is None:
        return True  # an unknown term does not limit the major
    sign, number, rest = match[1] or "=", int(match[2]), match[3]
    if sign in (">=", ">"):
        return major >= number
    if sign == "<":
        return major < number or (major == number and re.fullmatch(r"(\.0+)*(\.0*[a-z]+\d*)?", rest) is None)
    return major <= number if sign == "<=" else True if sign == "!=" else major == number
