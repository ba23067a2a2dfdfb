"""Hashes that people wrote beside requirements: whatever an index has today, a lock names one of these files or is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from envmgr.errors import InputError
from envmgr.wheels.lock import LockedFile
from envmgr.wheels.requirements import Question
from envmgr.wheels.target import holds


@dataclass(frozen=True, slots=True)
class Held:
    """The rows with hashes that count for a target, by the normalised name of their package."""

    rows: Mapping[str, Sequence[tuple[SpecifierSet, frozenset[str]]]]

    def sums(self, name: str, version: str) -> frozenset[str] | None:
        """The sha256 sums that a file of that version may have: those that all rows of it have in common. None where no row says any."""
        found = [sums for specifier, sums in self.rows.get(name, ()) if specifier.contains(version, prereleases=True)]
        return frozenset.intersection(*found) if found else None


def held(wanted: Question, python: str) -> Held:
    """`python` is a version."""
    rows: dict[str, list[tuple[SpecifierSet, frozenset[str]]]] = {}
    for row in wanted.hashed:
        read = Requirement(row.requirement)
        if holds(read.marker, python, wanted.platform):
            rows.setdefault(canonicalize_name(read.name), []).append((read.specifier, frozenset(row.sha256)))
    return Held(rows)


def require_hashes(wanted: Question, files: Iterable[LockedFile], python: str, where: object) -> None:
    """InputError `hash-differs` for the first of a lock's files that is none of those that the recipe names; `where` is the lock's."""
    rows = held(wanted, python)
    for each in files:
        sums = rows.sums(each.name, each.version)
        if sums is not None and each.sha256 not in sums:
            raise differs(f"{each.name} {each.version}", sums, [f"{each.file}  sha256 {each.sha256}"], where)


def differs(what: str, sums: Iterable[str], found: Iterable[str], where: object) -> InputError:
    return InputError(
        "hash-differs",
        f"{what} has none of the hashes that the recipe's requirements say",
        context=[*(f"the recipe: sha256 {each}" for each in sorted(sums)), *(f"{where}: {each}" for each in found)],
        hint="find out which of the two is right: the index may have another file of that version, or the hash is of its source "
        "(`build` in the recipe) or of a wheel for another platform",
    )
