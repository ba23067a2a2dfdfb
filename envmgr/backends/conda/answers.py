"""Checks that a conda lock answers its recipe, by rattler's own MatchSpec.

Every spec needs its package, no need may be open, and every package must be needed. These checks use the records of the
lock; a build looks into the files (spec_parts.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envmgr.backends.conda.input import CondaInput
from envmgr.backends.conda.lock import CondaLock, LockedPackage
from envmgr.backends.conda.spec_parts import needed_names, read_row
from envmgr.catalog.lock_rules import UNANSWERED, LockFault, unanswered, unneeded


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
        from envmgr.wheels.answers import faults_of_files
        from envmgr.wheels.closure import closure_faults

        added = lock.added
        yield from closure_faults(wanted.question(), added.parts, added.python, present=brought_by(lock))
        yield from faults_of_files(added, wanted.question())
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
