"""What of a conda lock can contradict: CUDA majors, the variant of BLAS, OpenMP, and what packages need of each other.

Source: conda-forge's names and build strings (`cuda118_*`, `*_openblas`, `*_kmp_llvm`), and those of the channels nvidia, pytorch and
defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from envmgr.backends.conda.input import CondaInput
from envmgr.backends.conda.lock import CondaLock, LockedPackage
from envmgr.catalog.gpu.needs import short_cuda
from envmgr.catalog.lockrules.judge import EDITED, Fault, LockFacts
from envmgr.wheels.lock import cuda_majors, glibc_of

# Whose version is CUDA's own. Not cuda-compat, which may be newer than the rest, and not Python's cuda-core, cuda-pathfinder.
_VERSIONED = re.compile(
    r"cuda|cudatoolkit(-dev)?|pytorch-cuda|lib(cublas|npp|nvjpeg|nvjitlink)(-dev|-static)?"
    r"|cuda-(version|runtime|toolkit|compiler|libraries|cudart|nvrtc|nvtx|cupti|nvcc|nvvm|crt|nvdisasm|cuobjdump|nvprune|tools|command-line-tools"
    r"|visual-tools|profiler-api|nvml|driver|opencl|gdb|sanitizer-api|minimal-build)(-[a-z0-9_-]+)?"
)
_NAMED = re.compile(r".+-cu(?:da)?(1\d)(?:\dx?|x)?")  # magma-cuda121
_BUILD = re.compile(r"cu(?:da)?_?(\d+)(\.\d+)?")
_ASKED = ("cuda-version", "cudatoolkit", "pytorch-cuda", "cuda-cudart", "libcublas")
_MAJORS = range(8, 30)
_BLAS = ("libblas", "libcblas", "liblapack", "liblapacke", "blas", "blas-devel")
_VARIANT = re.compile(r"(?:^|[_-])(mkl|openblas|netlib|blis|accelerate|newaccelerate|nvpl|aocl)(?:$|[_-])")
_OPENMP = "_openmp_mutex"
_FEW = 6


def facts_of(lock: CondaLock, wanted: CondaInput, edited: str = "") -> LockFacts:
    """`edited` is why its text is not as it was written; empty when it is."""
    packages = {package.name: package for package in lock.packages}
    own = conda_majors(lock.packages)
    wheels = () if lock.added is None else lock.added.wheels
    majors = {major: list(names) for major, names in own.items()}
    for major, names in cuda_majors({} if lock.added is None else lock.added.versions).items():
        majors.setdefault(major, []).extend(f"{name} (wheel)" for name in names)
    faults = [
        *([Fault(EDITED, edited)] if edited else []),
        *_beyond(lock.packages, own),
        *_virtual(lock, own, wanted),
        *_variants(packages),
        *_unmet(packages),
    ]
    return LockFacts(cuda=cuda_of(lock), majors=majors, glibc=glibc_of(wheels), own=tuple(faults))


def notes_of(lock: CondaLock, wanted: CondaInput) -> tuple[str, ...]:
    """What is no fault, and probably not meant."""
    if "__cuda" in wanted.virtual_packages and cuda_of(lock) is None:
        told = wanted.virtual_packages["__cuda"]
        return (
            f"the recipe says `__cuda` {told}, and no package of the lock is known to be for CUDA: it runs on the CPU",
        )
    return ()


def cuda_of(lock: CondaLock) -> str | None:
    """The CUDA version that the environment is made for, as `12.1`; empty where only a major is told; None without CUDA."""
    added = {} if lock.added is None else lock.added.versions
    return short_cuda(lock.cuda()) or ("" if conda_majors(lock.packages) or cuda_majors(added) else None)


def conda_majors(packages: Iterable[LockedPackage]) -> dict[str, list[str]]:
    """CUDA major -> `name version` of the packages that are for that one and no other."""
    found: dict[str, list[str]] = {}
    for package in packages:
        for major in sorted(_majors_of(package)):
            found.setdefault(major, []).append(f"{package.name} {package.version}")
    return found


def _majors_of(package: LockedPackage) -> set[str]:
    found = set()
    if _VERSIONED.fullmatch(package.name):
        found.add(package.version.partition(".")[0])
    elif named := _NAMED.fullmatch(package.name):
        found.add(named[1])
    for digits, minor in _BUILD.findall(package.build):
        found.add(_major_of(digits, whole=bool(minor)))
    for asked in _asked(package.depends):
        if len(asked) == 1:
            found.add(str(min(asked)))
    return {each for each in found if each.isdecimal() and int(each) in _MAJORS}


def _major_of(digits: str, *, whole: bool) -> str:
    """`118` is CUDA 11.8, `12` is CUDA 12, `92` is CUDA 9.2; `whole`: a minor follows after a dot."""
    if whole or (len(digits) == 2 and digits[0] == "1"):
        return digits
    return digits[0] if len(digits) == 2 else digits[:2]


def _asked(depends: Iterable[str]) -> Iterator[set[int]]:
    """Of each CUDA package that is asked for, the majors that would do."""
    for row in depends:
        name, version, _ = _parts(row)
        if name in _ASKED and version and version != "*":
            yield {major for major in _MAJORS if _allows(version, major)}


def _allows(version: str, major: int) -> bool:
    """Whether some version of this major fits `>=11.8,<12`, `11.*`, `>=12,<13.0a0|>=13`."""
    return any(
        all(_fits(term, major) for term in each.split(",")) for each in re.sub(r"[()\s]", "", version).split("|")
    )


def _fits(term: str, major: int) -> bool:
    match = re.fullmatch(r"(>=|<=|==|~=|!=|>|<|=)?(\d+)((?:\.[\da-z*]+)*)\*?", term)
    if match is None:
        return True  # nothing that is known is said of the major
    sign, number, rest = match[1] or "=", int(match[2]), match[3]
    if sign in (">=", ">"):
        return major >= number
    if sign == "<":
        return major < number or (major == number and re.fullmatch(r"(\.0+)*(\.0*[a-z]+\d*)?", rest) is None)
    return major <= number if sign == "<=" else True if sign == "!=" else major == number


def _beyond(packages: Sequence[LockedPackage], majors: Mapping[str, Sequence[str]]) -> Iterator[Fault]:
    """Packages that leave several majors open, or only constrain them, and not the one that is there."""
    if len(majors) != 1:
        return
    (own,) = majors
    for package in packages:
        rows = [(row, asked) for row in (*package.depends, *package.constrains) for asked in _asked([row])]
        for row, asked in rows:
            if asked and int(own) not in asked and len(asked) < len(_MAJORS):
                text = f"{package.name} {package.version} is for `{row}`; CUDA {own}: {', '.join(majors[own][:_FEW])}"
                yield Fault("cuda-majors", text, f"pin {package.name} to a build for CUDA {own}")


def _virtual(lock: CondaLock, majors: Mapping[str, Sequence[str]], wanted: CondaInput) -> Iterator[Fault]:
    """conda's CUDA packages without the recipe's word that there is a driver: nothing was chosen for one."""
    if not majors:
        return
    cuda = short_cuda(
        next((v for n in ("cuda-version", "cudatoolkit", "pytorch-cuda") if (v := lock.versions.get(n))), None)
    )
    told = cuda or max(majors, key=int)
    said = wanted.virtual_packages.get("__cuda", "").split()
    mend = f'`virtual_packages: {{__cuda: "{told}"}}` in the recipe\'s input, and lock again'
    if not said:
        yield Fault(
            "cuda-virtual", f"input.virtual_packages: the lock has CUDA {told}, and `__cuda` is not asked for", mend
        )
    elif _number(said[0]) < max(map(int, majors)):
        yield Fault(
            "cuda-virtual",
            f"input.virtual_packages: the lock has CUDA {told}, the recipe says `__cuda` {said[0]}",
            mend,
        )


def _number(version: str) -> int:
    match = re.match(r"\d+", version)
    return int(match[0]) if match else 0


def _variants(packages: Mapping[str, LockedPackage]) -> Iterator[Fault]:
    found: dict[str, list[str]] = {}
    for name in _BLAS:
        if name in packages and (variant := _VARIANT.findall(packages[name].build)):
            found.setdefault(variant[-1], []).append(f"{name} {packages[name].version} {packages[name].build}")
    if len(found) > 1:
        told = "; ".join(f"{variant}: {', '.join(names)}" for variant, names in sorted(found.items()))
        chosen = max(found, key=lambda variant: len(found[variant]))
        specs = ", ".join(f"`{name} * *_{chosen}`" for name in _BLAS if name in packages and name != "blas")
        yield Fault("blas-variants", told, f"{specs} in `specs`, for one variant, and lock again")


def _unmet(packages: Mapping[str, LockedPackage]) -> Iterator[Fault]:
    """By names and build strings. Versions are the solver's."""
    for package in packages.values():
        for row in package.depends:
            name = _parts(row)[0]
            if name and not name.startswith("__") and name not in packages:
                yield Fault(
                    "unmet-need", f"{package.name} {package.version} needs `{row}`, which the lock lacks", "lock again"
                )
        for row in (*package.depends, *package.constrains):
            name, _, build = _parts(row)
            there = packages.get(name)
            if there is not None and build and not _is_build(there.build, build):
                rule = "openmp-mutex" if name == _OPENMP else "unmet-need"
                text = f"{package.name} {package.version} needs `{row}`, the lock has {there.version} {there.build}"
                yield Fault(rule, text, f"`{name} * {build}` in `specs`, and lock again")


def _parts(row: str) -> tuple[str, str, str]:
    """Name, version and build string of `mkl 2023.*`, `mkl>=2023,<2024`, `_openmp_mutex * *_llvm`. Of what holds only sometimes
    (`mkl; if …`), nothing.
    """
    match = re.fullmatch(r"\s*(?:\S+::)?([A-Za-z0-9_.-]+)([^;]*)", row)
    if match is None:
        return "", "", ""
    rest = re.sub(r"(?<=[<>=!~,|])\s+|\s+(?=[,|])", "", match[2].strip())
    version, _, build = rest.partition(" ")
    return match[1].lower(), version, build.strip()


def _is_build(found: str, wanted: str) -> bool:
    """As conda compares: `*` is any text, and what stands between `^` and `$` a regular expression."""
    if wanted.startswith("^") and wanted.endswith("$"):
        return re.fullmatch(wanted[1:-1], found) is not None
    return any(fnmatchcase(found, each) for each in wanted.split("|"))
