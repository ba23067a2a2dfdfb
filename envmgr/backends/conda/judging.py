"""What of a conda lock can contradict: CUDA majors, the variant of BLAS, OpenMP, and what packages need of each other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from envmgr.backends.conda.cuda import asked, beside_cuda, conda_majors, cuda_version
from envmgr.backends.conda.input import CondaInput
from envmgr.backends.conda.lock import CondaLock, LockedPackage
from envmgr.backends.conda.rows import is_build, read_row
from envmgr.catalog.gpu.needs import short_cuda
from envmgr.catalog.lockrules.judge import EDITED, Fault, LockFacts
from envmgr.catalog.lockrules.rules import HIDDEN
from envmgr.wheels.cuda import cuda_majors, cuda_of_wheels
from envmgr.wheels.target import glibc_of

_BLAS = ("libblas", "libcblas", "liblapack", "liblapacke")
_VARIANT = re.compile(r"(?:^|[_-])(mkl|openblas|netlib|blis|accelerate|newaccelerate|nvpl|aocl)(?:$|[_-])")
_OPENMP = "_openmp_mutex"
_FEW = 6
# Packages of conda's channels that bring some of them -> which, among others.
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
    """`edited` is why its text is not as it was written; empty when it is."""
    packages = {package.name: package for package in lock.packages}
    own = conda_majors(lock.packages, _named(wanted))
    majors = {major: list(names) for major, names in own.items()}
    for major, names in cuda_majors({} if lock.added is None else lock.added.versions).items():
        majors.setdefault(major, []).extend(f"{name} (wheel)" for name in names)
    faults = [
        *([Fault(EDITED, edited, "lock it again")] if edited else []),
        *_beyond(packages, own, beside_cuda(lock.packages, _named(wanted))),
        *_virtual(lock, own, wanted),
        *_variants(packages),
        *_unmet(packages),
        *_hiding(packages),
    ]
    glibc = glibc_of(() if lock.added is None else lock.added.wheels)
    return LockFacts(cuda=cuda_of(lock, wanted), majors=majors, glibc=glibc, own=tuple(faults))


def notes_of(lock: CondaLock, wanted: CondaInput) -> tuple[str, ...]:
    """What is no fault, and probably not meant."""
    if "__cuda" in wanted.virtual_packages and cuda_of(lock, wanted) is None:
        told = wanted.virtual_packages["__cuda"]
        said = (
            f"the recipe says `__cuda` {told}, and no package of the lock is known to be for CUDA: it runs on the CPU"
        )
        return (said,)
    return ()


def cuda_of(lock: CondaLock, wanted: CondaInput) -> str | None:
    """The CUDA version that the environment is made for, as `12.1`; empty where only a major is told; None without CUDA."""
    named = _named(wanted)
    own = short_cuda(cuda_version(lock.packages, named)) or ("" if conda_majors(lock.packages, named) else None)
    return own or (None if lock.added is None else cuda_of_wheels(lock.added.versions)) or own


def _named(wanted: CondaInput) -> frozenset[str]:
    return frozenset(read_row(spec).name for spec in wanted.specs)


def _beyond(
    packages: Mapping[str, LockedPackage], majors: Mapping[str, Sequence[str]], beside: Collection[str]
) -> Iterator[Fault]:
    """Packages that leave several majors open, and not the one that is there; or that limit another package which is there."""
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
                    yield Fault("cuda-majors", text, f"pin {package.name} to a build for CUDA {own}")


def _virtual(lock: CondaLock, majors: Mapping[str, Sequence[str]], wanted: CondaInput) -> Iterator[Fault]:
    """CUDA packages, and a recipe that says of no driver, or of one for an older major: nothing was chosen for the nodes' own."""
    if not majors:
        return
    told = short_cuda(cuda_version(lock.packages, _named(wanted))) or max(majors, key=int)
    said = wanted.virtual_packages.get("__cuda", "").split()
    mend = f'`virtual_packages: {{__cuda: "{told}"}}` in the recipe\'s input, and lock again'
    has = f"input.virtual_packages: the lock has CUDA {told}"
    if not said:
        yield Fault("cuda-virtual", f"{has}, and `__cuda` is not asked for", mend)
    elif _number(said[0]) < _number(told):
        yield Fault("cuda-virtual", f"{has}, the recipe says `__cuda` {said[0]}", mend)


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
        specs = ", ".join(f"`{name} * *_{chosen}`" for name in _BLAS if name in packages)
        yield Fault("blas-variants", told, f"{specs} in `specs`, for one variant, and lock again")


def _hiding(packages: Collection[str]) -> Iterator[Fault]:
    """By their names, those that are known for it; a build sees the programs themselves."""
    for name in sorted(BRINGERS.keys() & set(packages)):
        yield Fault(
            HIDDEN, f"{name} brings {BRINGERS[name]}, and hides those of the system", f"leave {name} out of `specs`"
        )


def _unmet(packages: Mapping[str, LockedPackage]) -> Iterator[Fault]:
    """By names and build strings. Versions are the solver's."""
    for package in packages.values():
        for row in package.depends:
            name = read_row(row).name
            if name and not name.startswith("__") and name not in packages:
                text = f"{package.name} {package.version} needs `{row}`, which the lock lacks"
                yield Fault("unmet-need", text, "lock again")
        for row in (*package.depends, *package.constrains):
            need = read_row(row)
            there = packages.get(need.name)
            if there is not None and need.build and not is_build(there.build, need.build):
                rule = "openmp-mutex" if need.name == _OPENMP else "unmet-need"
                text = f"{package.name} {package.version} needs `{row}`, the lock has {there.version} {there.build}"
                yield Fault(rule, text, f"`{need.name} * {need.build}` in `specs`, and lock again")
