"""Checks of a conda lock: CUDA majors, BLAS variants, and whether each requirement of the recipe has its package."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from envmgr.backends.conda.cuda import asked, beside_cuda, conda_majors, cuda_of, cuda_version, named_packages
from envmgr.backends.conda.lock import PYTHON, CondaLock, LockedPackage, name_of
from envmgr.backends.conda.models import CondaInput
from envmgr.catalog.gpus import short_cuda
from envmgr.catalog.lock_checks import EDITED, LockFacts, LockFault, unanswered

_BLAS = ("libblas", "libcblas", "liblapack", "liblapacke")
_VARIANT = re.compile(r"(?:^|[_-])(mkl|openblas|netlib|blis|accelerate|newaccelerate|nvpl|aocl)(?:$|[_-])")
_FEW = 6


def facts_of(lock: CondaLock, wanted: CondaInput, edited: str = "") -> LockFacts:
    """Return the facts of a lock. `edited` is the reason why its text differs from what was written; empty if it does
    not.
    """
    packages = {package.name: package for package in lock.packages}
    own = conda_majors(lock.packages, named_packages(wanted))
    majors = {major: list(names) for major, names in own.items()}
    glibc = None
    if lock.added is not None and lock.added.rows:  # few locks have wheels, and what reads them loads slowly
        from envmgr.wheels.target import cuda_majors, glibc_of

        for major, names in cuda_majors(lock.added.versions).items():
            majors.setdefault(major, []).extend(f"{name} (wheel)" for name in names)
        glibc = glibc_of(lock.added.platform)
    faults = [
        *([LockFault(EDITED, edited, "lock it again")] if edited else []),
        *_beyond(packages, own, beside_cuda(lock.packages, named_packages(wanted))),
        *_virtual(lock, own, wanted),
        *_variants(packages),
        *_unmet(lock, wanted),
    ]
    compat = short_cuda(lock.versions.get("cuda-compat")) or ""
    return LockFacts(cuda=cuda_of(lock, wanted), majors=majors, glibc=glibc, own=tuple(faults), compat=compat)


def notes_of(lock: CondaLock, wanted: CondaInput) -> tuple[str, ...]:
    """Return notes on what is no fault, but probably not intended."""
    if "__cuda" in wanted.virtual_packages and cuda_of(lock, wanted) is None:
        told = wanted.virtual_packages["__cuda"]
        said = (
            f"the recipe says `__cuda` {told}, and no package of the lock is known to be for CUDA: it runs on the CPU"
        )
        return (said,)
    return ()


def _beyond(
    packages: Mapping[str, LockedPackage], majors: Mapping[str, Sequence[str]], beside: Collection[str]
) -> Iterator[LockFault]:
    """Yield faults of packages that allow several majors but not the present one, or that limit another present
    package.
    """
    # Several majors are a fault of their own (`cuda-majors`).
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
    told = short_cuda(cuda_version(lock.packages, named_packages(wanted))) or max(majors, key=int)
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


def _unmet(lock: CondaLock, wanted: CondaInput) -> Iterator[LockFault]:
    """Yield a fault for each requirement of the recipe that no package of the lock meets: specs by their names, whose
    versions and builds a solve compares, and rows of `pip`.
    """
    names = {name.lower() for name in (*lock.versions, *wanted.all_virtual_packages())}
    yield from (unanswered(spec, "") for spec in wanted.specs if name_of(spec) not in names and "when=" not in spec)
    if wanted.pip:  # few recipes ask for wheels: what reads their requirements loads slowly
        from envmgr.backends.conda.pip import promised_distributions
        from envmgr.wheels.lock_checks import unmet_requirements

        versions = {name: version for name, (_, version) in promised_distributions(lock.packages).items()}
        versions |= lock.added.versions if lock.added else {}
        yield from unmet_requirements(wanted.pip, versions, lock.versions.get(PYTHON, ""), wanted.question().platform)
