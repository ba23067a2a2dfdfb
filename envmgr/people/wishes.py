"""A user's wishes, from the command line and from files; and changes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envmgr.errors import InputError
from envmgr.people.lock import UserLock
from envmgr.people.solve import Wish
from envmgr.report import Reporter
from envmgr.system.run import Runner
from envmgr.wheels.requirements import checked_all
from envmgr.wording import shortened

_WAY = "give it the name that its tool gives it"


def rows_of(packages: Sequence[str], file: Path | None, runner: Runner, reporter: Reporter) -> tuple[str, ...]:
    """Return the requirements of the command line and of a file, each once. What of the file is left out is reported.

    Raises InputError `requirement-invalid`, `import-empty`, and as `read_file`.
    """
    try:
        rows = checked_all(packages)
    except ValueError as error:
        raise InputError("requirement-invalid", str(error)) from None
    more = () if file is None else _rows_in(file, runner, reporter)
    return tuple(dict.fromkeys((*rows, *more)))


def _rows_in(file: Path, runner: Runner, reporter: Reporter) -> tuple[str, ...]:
    from envmgr.exchange import REQUIREMENTS, read_file

    _, contents = read_file(file, runner, way=_WAY, otherwise=REQUIREMENTS)
    left = [f"{file}{f':{row.line}' if row.line else ''}: left out: {row.text}: {row.why}" for row in contents.left]
    left += [f"{file}: left out: {spec}: a package of conda" for spec in contents.specs]
    if not contents.rows:
        raise InputError(
            "import-empty", f"{file} asks for no package that an environment can have", context=shortened(left)
        )
    left += [f"{file}: left out: its sums: the lock gets those of the index"] if contents.locks else []
    for line in shortened(left):
        reporter.say(line)
    return contents.rows


def wish_of(
    rows: Sequence[str], replaced: Sequence[str] = (), editable: Sequence[str] = (), *, more: Wish | None = None
) -> Wish:
    """Return the wish for rows; those of `more` stay, but for the packages that the rows name."""
    names = {_name(row) for row in rows}
    kept = Wish(()) if more is None else more
    return Wish(
        (*(row for row in kept.requirements if _name(row) not in names), *rows),
        tuple(dict.fromkeys((*kept.replaced, *replaced))),
        (*kept.editable, *editable),
    )


def _name(row: str) -> str:
    return canonicalize_name(Requirement(row).name)


def with_packages(
    packages: Sequence[str], file: Path | None, replaced: Sequence[str], runner: Runner, reporter: Reporter
) -> Callable[[UserLock], Wish]:
    """Return the change that adds requirements; one of a package that was asked for takes the old one's place."""
    rows = rows_of(packages, file, runner, reporter)
    return lambda lock: wish_of(rows, replaced, more=unchanged(lock))


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
        replaced = tuple(each for each in lock.replaced if each not in names)
        return Wish(kept, replaced, lock.editable)

    return change


def unchanged(lock: UserLock) -> Wish:
    """Return the same wish: the newest versions that fit to it are taken."""
    return Wish(lock.requirements, lock.replaced, lock.editable)
