"""Checks of a conda lock: what speaks against it by itself, and whether it answers its recipe.

A lock may contradict itself: CUDA majors, BLAS variants, OpenMP, the needs of its packages by names and builds. Whether
it answers its recipe is checked by rattler's own MatchSpec: every spec needs its package, no need may be open, and
every package must be needed. All of that uses the records of the lock; a build looks into the files
(install_worker.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from envmgr.backends.conda.cuda import asked, beside_cuda, conda_majors, cuda_of, cuda_version, named_packages
from envmgr.backends.conda.lock import CondaLock, LockedPackage, is_build, needed_names, read_row
from envmgr.backends.conda.models import CondaInput
from envmgr.catalog.accept import HIDDEN
from envmgr.catalog.gpus import short_cuda
from envmgr.catalog.lock_rules import EDITED, UNANSWERED, LockFacts, LockFault, unanswered, unneeded

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
    own = conda_majors(lock.packages, named_packages(wanted))
    majors = {major: list(names) for major, names in own.items()}
    glibc = None
    if lock.added is not None:  # few locks have wheels, and what reads them loads slowly
        from envmgr.wheels.target import cuda_majors, glibc_of

        for major, names in cuda_majors(lock.added.versions).items():
            majors.setdefault(major, []).extend(f"{name} (wheel)" for name in names)
        glibc = glibc_of(lock.added.wheels)
    faults = [
        *([LockFault(EDITED, edited, "lock it again")] if edited else []),
        *_beyond(packages, own, beside_cuda(lock.packages, named_packages(wanted))),
        *_virtual(lock, own, wanted),
        *_variants(packages),
        *_unmet(packages),
        *_hiding(packages),
    ]
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
            # Virtual packages are the system's, and no lock has them.
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


def faults_of(lock: CondaLock, wanted: CondaInput) -> Iterator[LockFault]:
    """Yield the faults of the lock's packages and wheels."""
    yield from _of_another_platform(lock, wanted)
    packages = {package.name.lower(): package for package in lock.packages}
    matcher = _Matcher(packages, wanted.all_virtual_packages())
    for spec in wanted.specs:
        if fault := matcher.unanswered(spec):
            yield fault
    for package in lock.packages:
        yield from matcher.unmet(package)
    needed = needed_names(wanted.specs, {name: package.depends for name, package in packages.items()})
    yield from unneeded(((name, _shown(package)) for name, package in packages.items()), needed)
    if lock.added is not None:  # few locks have wheels: what reads their requirements loads slowly
        from envmgr.backends.conda.pip import brought_by
        from envmgr.wheels.answers import closure_faults, faults_of_files, prerelease_faults

        added = lock.added
        yield from closure_faults(wanted.question(), added.parts, added.python, present=brought_by(lock))
        yield from faults_of_files(added, wanted.question())
        yield from prerelease_faults(wanted.question(), added.wheels)
    elif wanted.pip:
        yield from (unanswered(row, "") for row in wanted.pip)


def _of_another_platform(lock: CondaLock, wanted: CondaInput) -> Iterator[LockFault]:
    if lock.platform != wanted.platform:
        yield LockFault(UNANSWERED, f"platform: the recipe says {wanted.platform}, the lock {lock.platform}")
    for package in lock.packages:
        if package.subdir not in (wanted.platform, "noarch"):
            yield LockFault(UNANSWERED, f"{_shown(package)} is for {package.subdir}, the recipe for {wanted.platform}")


def _shown(package: LockedPackage) -> str:
    return f"{package.name} {package.version} {package.build}"


class _Matcher:
    """The packages of a lock and the virtual packages of its recipe, as rattler's records."""

    def __init__(self, packages: Mapping[str, LockedPackage], virtual: Mapping[str, str]) -> None:
        import rattler  # costs 0.2 s

        self._rattler, self._packages, self._virtual = rattler, packages, virtual
        self._records: dict[str, Any] = {}

    def unanswered(self, spec: str) -> LockFault | None:
        name = read_row(spec).name
        there = self._shown(name)
        if there and self._matches(spec, name) is True:
            return None
        return unanswered(spec, there)

    def unmet(self, package: LockedPackage) -> Iterator[LockFault]:
        """Yield the package's needs and limits that no version here meets. A row that cannot be read is skipped.

        Names and builds are checked in judging.py.
        """
        for row in (*package.depends, *package.constrains):
            name, there = read_row(row).name, self._shown(read_row(row).name)
            if name.startswith("__") and not there and row in package.depends and name != "__conda":
                text = f"{_shown(package)} needs `{row}`, and the recipe declares no `{name}`"
                yield LockFault(
                    "unmet-need", text, f"`virtual_packages: {{{name}: …}}` in the recipe's input, and lock again"
                )
            elif there and self._matches(row, name) is False:
                yield LockFault("unmet-need", f"{_shown(package)} needs `{row}`, the lock has {there}", "lock again")

    def _shown(self, name: str) -> str:
        if name in self._packages:
            return _shown(self._packages[name])
        return f"{name} {self._virtual[name]}" if name in self._virtual else ""

    def _matches(self, row: str, name: str) -> bool | None:
        """Return whether the record of `name` matches the row; None for a row that rattler cannot read."""
        try:
            return bool(self._rattler.MatchSpec(row, strict=False).matches(self._record(name)))
        except Exception:  # noqa: BLE001 - rattler has an error of its own for each part of a row
            return None

    def _record(self, name: str) -> Any:
        if name not in self._records:
            if name in self._packages:
                each = self._packages[name]
                version, build, number = each.version, each.build, each.build_number
            else:
                version, _, build = self._virtual[name].partition(" ")
                number = 0
            made = self._rattler.BuildString.new_unchecked(build or "0")
            self._records[name] = self._rattler.PackageRecord(name, version, made, number, "linux-64")
        return self._records[name]
