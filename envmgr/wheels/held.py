"""Hashes that people wrote beside requirements: whatever an index has today, a lock names one of these files or is refused."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envmgr.errors import InputError
from envmgr.wheels.lock import LockedFile
from envmgr.wheels.requirements import Question
from envmgr.wheels.target import holds


def allowed(wanted: Question, name: str, version: str, python: str) -> frozenset[str] | None:
    """The sha256 sums that a file of that version may have: those that all rows of it have in common. None where no row says any."""
    found: frozenset[str] | None = None
    for row in wanted.hashed:
        read = Requirement(row.requirement)
        if (
            canonicalize_name(read.name) == name
            and read.specifier.contains(version, prereleases=True)
            and holds(read.marker, python, wanted.platform)
        ):
            found = frozenset(row.sha256) if found is None else found & frozenset(row.sha256)
    return found


def require_hashes(wanted: Question, files: Iterable[LockedFile], python: str, where: object) -> None:
    """InputError `hash-differs` for the first of a lock's files that is none of those that the recipe names; `where` is the lock's."""
    for each in files if wanted.hashed else ():
        sums = allowed(wanted, each.name, each.version, python)
        if sums is not None and each.sha256 not in sums:
            raise differs(f"{each.name} {each.version}", sums, [f"{each.file}  sha256 {each.sha256}"], where)


def differs(what: str, sums: Iterable[str], found: Iterable[str], where: object) -> InputError:
    return InputError(
        "hash-differs", f"{what} has none of the hashes that the recipe's requirements say",
        context=[*(f"the recipe: sha256 {each}" for each in sorted(sums)), *(f"{where}: {each}" for each in found)],
        hint="find out which of the two is right: the index may have another file of that version, or the hash is of its source "
        "(`build` in the recipe) or of a wheel for another platform",
    )  # fmt: skip
