"""Checks for contradictions in a conda lock: CUDA majors, BLAS variant, OpenMP, and what packages need of each
other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from envmgr.backends.conda.input import CondaInput
from envmgr.backends.conda.lock import CondaLock, LockedPackage
from envmgr.backends.conda.spec_parts import is_build, read_row
from envmgr.catalog.accept import HIDDEN
from envmgr.catalog.gpu_codes import short_cuda
from envmgr.catalog.lock_rules import EDITED, LockFacts, LockFault
from envmgr.wheels.cuda import cuda_majors, cuda_of_wheels
from envmgr.wheels.target import glibc_of

# Packages whose version is CUDA's own. Not cuda-compat, which may be newer than the rest, and not Python's cuda-core,
# cuda-pathfinder.
_VERSIONED = re.compile(
    r"cuda|cudatoolkit(-dev)?|pytorch-cuda|lib(cublas|npp|nvjpeg|nvjitlink)(-dev|-static)?"
    r"|cuda-(version|runtime|toolkit|compiler|libraries|cudart|nvrtc|nvtx|cupti|nvcc|nvvm|nvprof|crt|nvdisasm|cuobjdump|cuxxfilt|nvprune|tools"
    r"|command-line-tools|visual-tools|profiler-api|nvml|driver|gdb|sanitizer-api|demo-suite|minimal-build)([-_][a-z0-9_-]+)?"
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

Majors = Mapping[str, list[str]]


def conda_majors(packages: Iterable[LockedPackage], named: Collection[str] = ()) -> dict[str, list[str]]:
    """Return CUDA major -> `name version` of the packages that are for this major only.

    `named` are the packages that the recipe asks for.
    """
    there = list(packages)
    strong, weak = _kinds(there, named)
    return strong or weak


def _kinds(packages: list[LockedPackage], named: Collection[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the majors by strong evidence, and by weak evidence, which counts only where there is no strong evidence.

    Weak evidence is the build string of a package that needs no CUDA package, and libraries that may be newer than
    CUDA.
    """
    strong: dict[str, list[str]] = {}
    weak: dict[str, list[str]] = {}
    beside = beside_cuda(packages, named)
    for package in packages:
        by_build = _by_build(package)
        certain = _by_name(package) | _by_need(package)
        for major in sorted(certain | by_build):
            only_build = major not in certain and bool(package.depends) and not any(map(_needs_cuda, package.depends))
            into = weak if package.name in beside or only_build else strong
            into.setdefault(major, []).append(f"{package.name} {package.version}")
    return strong, weak


def cuda_version(packages: Iterable[LockedPackage], named: Collection[str] = ()) -> str | None:
    """Return the toolkit's version, from `cuda-version` unless only libraries that may be newer than CUDA brought
    it.
    """
    there = list(packages)
    beside = beside_cuda(there, named)
    versions = {package.name: package.version for package in there if package.name not in beside}
    order = ("cuda-version", *_TOOLKITS[:-1]) if "cuda-version" in versions else _TOOLKITS
    return next((versions[name] for name in order if name in versions), None)


def beside_cuda(packages: Collection[LockedPackage], named: Collection[str]) -> frozenset[str]:
    """Return the libraries that may be newer than CUDA.

    `cuda-version` is included if only they ask for it and another toolkit package is present.
    """
    toolkit = {package.name for package in packages} & set(_TOOLKITS[:-1])
    asking = {p.name for p in packages if any(read_row(row).name == "cuda-version" for row in p.depends)}
    only = toolkit and asking and asking <= set(_BESIDE) and "cuda-version" not in named
    return frozenset((*_BESIDE, "cuda-version") if only else _BESIDE if toolkit else ())


def _by_name(package: LockedPackage) -> set[str]:
    if _VERSIONED.fullmatch(package.name):
        return _known({package.version.partition(".")[0]})
    named = _NAMED.fullmatch(package.name) or _LOCAL.search(package.version)
    return _known({named[1]}) if named else set()


def _by_need(package: LockedPackage) -> set[str]:
    if package.name.startswith("cuda-compat"):
        return set()
    return _known({str(min(each)) for _, each in asked(package.depends) if len(each) == 1})


def _by_build(package: LockedPackage) -> set[str]:
    return _known({_major_of(digits, whole=bool(minor)) for digits, minor in _BUILD.findall(package.build)})


def _needs_cuda(row: str) -> bool:
    return _CUDAS.match(read_row(row).name) is not None


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
        read = read_row(row)
        if read.name in _ASKED and read.version and read.version != "*":
            allowed = {major for major in _MAJORS if _allows(read.version, major)}
            if 0 < len(allowed) < len(_MAJORS):
                yield read.name, allowed


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


_BLAS = ("libblas", "libcblas", "liblapack", "liblapacke")
_VARIANT = re.compile(r"(?:^|[_-])(mkl|openblas|netlib|blis|accelerate|newaccelerate|nvpl|aocl)(?:$|[_-])")
_OPENMP = "_openmp_mutex"
_FEW = 6
# Packages of conda's channels that bring programs of the system -> the programs, among others.
BRINGERS: Mapping[str, str] = {
    "bash": "bash",
    "busybox": "sh, su",
    "coreutils": "cat, chmod, echo, env, ls, test",
    "dash": "dash",
    "findutils": "find, xargs",
    "fish": "fish",
    "gawk": "awk",
    "grep": "egrep, fgrep, grep",
    "less": "less",
    "mosh": "mosh",
    "openssh": "scp, sftp, ssh, ssh-keygen",
    "procps-ng": "kill, ps",
    "sshpass": "sshpass",
    "sudo": "sudo",
    "tcsh": "tcsh",
    "util-linux": "mount, su",
    "which": "which",
    "zsh": "zsh",
}


def facts_of(lock: CondaLock, wanted: CondaInput, edited: str = "") -> LockFacts:
    """Return the facts of a lock. `edited` is the reason why its text differs from what was written; empty if it does
    not.
    """
    packages = {package.name: package for package in lock.packages}
    own = conda_majors(lock.packages, _named(wanted))
    majors = {major: list(names) for major, names in own.items()}
    for major, names in cuda_majors({} if lock.added is None else lock.added.versions).items():
        majors.setdefault(major, []).extend(f"{name} (wheel)" for name in names)
    faults = [
        *([LockFault(EDITED, edited, "lock it again")] if edited else []),
        *_beyond(packages, own, beside_cuda(lock.packages, _named(wanted))),
        *_virtual(lock, own, wanted),
        *_variants(packages),
        *_unmet(packages),
        *_hiding(packages),
    ]
    glibc = None if lock.added is None else glibc_of(lock.added.wheels)
    return LockFacts(cuda=cuda_of(lock, wanted), majors=majors, glibc=glibc, own=tuple(faults))


def notes_of(lock: CondaLock, wanted: CondaInput) -> tuple[str, ...]:
    """Return notes on what is no fault, but probably not intended."""
    if "__cuda" in wanted.virtual_packages and cuda_of(lock, wanted) is None:
        told = wanted.virtual_packages["__cuda"]
        said = (
            f"the recipe says `__cuda` {told}, and no package of the lock is known to be for CUDA: it runs on the CPU"
        )
        return (said,)
    return ()


def cuda_of(lock: CondaLock, wanted: CondaInput) -> str | None:
    """Return the CUDA version of the environment, as `12.1`; empty if only a major is known; None without CUDA."""
    named = _named(wanted)
    own = short_cuda(cuda_version(lock.packages, named)) or ("" if conda_majors(lock.packages, named) else None)
    return own or (None if lock.added is None else cuda_of_wheels(lock.added.versions)) or own


def _named(wanted: CondaInput) -> frozenset[str]:
    return frozenset(read_row(spec).name for spec in wanted.specs)


def _beyond(
    packages: Mapping[str, LockedPackage], majors: Mapping[str, Sequence[str]], beside: Collection[str]
) -> Iterator[LockFault]:
    """Yield faults of packages that allow several majors but not the present one, or that limit another present
    package.
    """
    if len(majors) != 1:
        return
    (own,) = majors
    for package in (each for name, each in packages.items() if name not in beside):
        for row in (*package.depends, *package.constrains):
            for name, allowed in asked([row]):
                there = packages.get(name)
                if there is None or int(own) in allowed:
                    continue
                if row in package.depends or there.version.partition(".")[0] == own:
                    text = (
                        f"{package.name} {package.version} is for `{row}`; CUDA {own}: {', '.join(majors[own][:_FEW])}"
                    )
                    yield LockFault("cuda-majors", text, f"pin {package.name} to a build for CUDA {own}")


def _virtual(lock: CondaLock, majors: Mapping[str, Sequence[str]], wanted: CondaInput) -> Iterator[LockFault]:
    """Yield a fault if there are CUDA packages and the recipe names no driver, or one for an older major.

    Nothing was chosen for the nodes' own driver then.
    """
    if not majors:
        return
    told = short_cuda(cuda_version(lock.packages, _named(wanted))) or max(majors, key=int)
    said = wanted.virtual_packages.get("__cuda", "").split()
    mend = f'`virtual_packages: {{__cuda: "{told}"}}` in the recipe\'s input, and lock again'
    has = f"input.virtual_packages: the lock has CUDA {told}"
    if not said:
        yield LockFault("cuda-virtual", f"{has}, and `__cuda` is not asked for", mend)
    elif _number(said[0]) < _number(told):
        yield LockFault("cuda-virtual", f"{has}, the recipe says `__cuda` {said[0]}", mend)


def _number(version: str) -> int:
    match = re.match(r"\d+", version)
    return int(match[0]) if match else 0


def _variants(packages: Mapping[str, LockedPackage]) -> Iterator[LockFault]:
    found: dict[str, list[str]] = {}
    for name in _BLAS:
        if name in packages and (variant := _VARIANT.findall(packages[name].build)):
            found.setdefault(variant[-1], []).append(f"{name} {packages[name].version} {packages[name].build}")
    if len(found) > 1:
        told = "; ".join(f"{variant}: {', '.join(names)}" for variant, names in sorted(found.items()))
        chosen = max(found, key=lambda variant: len(found[variant]))
        specs = ", ".join(f"`{name} * *_{chosen}`" for name in _BLAS if name in packages)
        yield LockFault("blas-variants", told, f"{specs} in `specs`, for one variant, and lock again")


def _hiding(packages: Collection[str]) -> Iterator[LockFault]:
    """Yield the packages whose names are known to hide programs of the system. A build sees the programs themselves."""
    for name in sorted(BRINGERS.keys() & set(packages)):
        yield LockFault(
            HIDDEN, f"{name} brings {BRINGERS[name]}, and hides those of the system", f"leave {name} out of `specs`"
        )


def _unmet(packages: Mapping[str, LockedPackage]) -> Iterator[LockFault]:
    """Yield unmet needs by names and build strings. Versions are checked by the solver."""
    for package in packages.values():
        for row in package.depends:
            name = read_row(row).name
            if name and not name.startswith("__") and name not in packages:
                text = f"{package.name} {package.version} needs `{row}`, which the lock lacks"
                yield LockFault("unmet-need", text, "lock again")
        for row in (*package.depends, *package.constrains):
            need = read_row(row)
            there = packages.get(need.name)
            if there is not None and need.build and not is_build(there.build, need.build):
                rule = "openmp-mutex" if need.name == _OPENMP else "unmet-need"
                text = f"{package.name} {package.version} needs `{row}`, the lock has {there.version} {there.build}"
                yield LockFault(rule, text, f"`{need.name} * {need.build}` in `specs`, and lock again")
