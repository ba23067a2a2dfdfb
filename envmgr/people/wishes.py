"""A user's wishes, from the command line and from files; and changes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envmgr.errors import InputError
from envmgr.people.lock import UserLock
from envmgr.people.solve import Wish
from envmgr.system.untrusted_files import ANYWHERE
from envmgr.wheels.requirements import checked_all
from envmgr.wheels.requirements_file import read_rows


def rows_of(packages: Sequence[str], file: Path | None) -> tuple[str, ...]:
    """Return the requirements of the command line and of a file. Raise InputError `requirement-invalid`."""
    try:
        rows = checked_all(packages)
    except ValueError as error:
        raise InputError("requirement-invalid", str(error)) from None
    more = () if file is None else tuple(row.requirement for row in read_rows(file, ANYWHERE))
    return tuple(dict.fromkeys((*rows, *more)))


def _name(row: str) -> str:
    return canonicalize_name(Requirement(row).name)


def with_packages(packages: Sequence[str], file: Path | None, replaced: Sequence[str]) -> Callable[[UserLock], Wish]:
    """Return the change that adds requirements; one of a package that was asked for takes the old one's place."""
    rows = rows_of(packages, file)
    names = {_name(row) for row in rows}

    def change(lock: UserLock) -> Wish:
        kept = [row for row in lock.requirements if _name(row) not in names]
        return Wish((*kept, *rows), tuple(dict.fromkeys((*lock.replaced, *replaced))), lock.editable)

    return change


def without_packages(packages: Sequence[str]) -> Callable[[UserLock], Wish]:
    """Return the change that takes requirements away. It raises InputError `not-asked-for`."""
    names = {canonicalize_name(each) for each in packages}

    def change(lock: UserLock) -> Wish:
        asked = {_name(row) for row in lock.requirements} | {*lock.replaced}
        if strange := sorted(names - asked):
            raise InputError(
                "not-asked-for",
                f"{strange[0]} is not among what you asked for",
                context=f"asked for: {', '.join(lock.requirements)}",
            )
        kept = tuple(row for row in lock.requirements if _name(row) not in names)
        return Wish(kept, tuple(each for each in lock.replaced if each not in names), lock.editable)

    return change


def unchanged(lock: UserLock) -> Wish:
    """Return the same wish: the newest versions that fit to it are taken."""
    return Wish(lock.requirements, lock.replaced, lock.editable)
