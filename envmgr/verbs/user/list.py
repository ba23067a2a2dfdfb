"""`envmgr user list` and `user show`: the environments of this user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from envmgr.errors import EnvmgrError
from envmgr.people.environments import amount, base_state, require_environment, strangers
from envmgr.people.lock import lock_of
from envmgr.people.places import UserPlaces, user_places
from envmgr.publish.records import GenerationRecord
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context, known_record
from envmgr.verbs import needs
from envmgr.verbs.user import Name
from envmgr.wording import inodes_text


@dataclass(frozen=True, slots=True)
class UserRow:
    """An environment in a list. `base` is the state of the entry below, as `base_state` has it, or `not known`.

    `strangers` are packages in it that its lock does not have. `fault` is why it cannot be read.
    """

    name: str
    path: str
    on: str = ""
    base: str = "not known"
    content: str = ""
    requirements: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    editable: tuple[str, ...] = ()
    inodes: int = 0
    size: int = 0
    strangers: tuple[str, ...] = ()
    fault: str = ""


_BASES = {
    "newer": "{on} has another install now: `envmgr user update {name} --rebase` takes it",
    "removed": "{on} is no longer published; its install is still there",
    "gone": "the install of {on} is gone: `envmgr user update {name} --rebase`, or another entry",
}


@dataclass(frozen=True, slots=True)
class UserListResult(Result):
    """The environments of this user, sorted by name."""

    schema: ClassVar[str] = "envmgr.user-list/1"
    folder: str
    environments: tuple[UserRow, ...]

    def lines(self) -> Lines:
        if not self.environments:
            yield f"no environment in {self.folder}: `envmgr user create NAME --on ENTRY PACKAGE` makes one"
        yield from _lines(self.environments)


@needs("nothing")
def list_(ctx: Context) -> UserListResult:
    """List your environments, with their state."""
    places, record = user_places(ctx.environ), known_record(ctx)
    return UserListResult(str(places.folder), tuple(_row(places, name, record) for name in places.names()))


@dataclass(frozen=True, slots=True)
class UserShowResult(Result):
    """One environment of this user."""

    schema: ClassVar[str] = "envmgr.user-show/1"
    environment: UserRow

    def lines(self) -> Lines:
        row = self.environment
        yield from _lines([row])
        yield f"asked for: {', '.join(row.requirements) or 'nothing'}"
        for package in row.packages:
            yield f"  {package}"
        for folder in row.editable:
            yield f"  {folder}, as it is: no lock holds it"
        yield f"in {row.path}"


@needs("nothing")
def show(ctx: Context, name: Name) -> UserShowResult:
    """Show the packages of an environment."""
    return UserShowResult(_row(user_places(ctx.environ), name, known_record(ctx)))


def _row(places: UserPlaces, name: str, record: GenerationRecord | None) -> UserRow:
    """Return the row of an environment. Raise InputError `no-environment`."""
    install = require_environment(places, name)
    row = UserRow(name, str(install.path))
    try:
        lock = lock_of(install)
        state = row.base if record is None else base_state(install, lock, record)
    except EnvmgrError as error:
        return replace(row, fault=error.message)
    inodes, size = amount([install])
    return replace(
        row,
        on=lock.on,
        base=state,
        content=lock.content,
        requirements=lock.requirements,
        packages=tuple(f"{each} {version}" for each, version in sorted(lock.versions.items())),
        editable=lock.editable,
        inodes=inodes,
        size=size,
        strangers=tuple(strangers(install, lock)),
    )


def _lines(rows: Sequence[UserRow]) -> Lines:
    """Yield rows as text, each followed by what is wrong with it."""
    yield Table(
        [f"user/{row.name}", row.on or "?", row.base, row.fault or inodes_text(row.inodes, row.size)] for row in rows
    )
    for row in rows:
        if row.base in _BASES:
            yield f"{row.name}: {_BASES[row.base].format(on=row.on, name=row.name)}"
        if row.strangers:
            yield f"{row.name}: its lock does not have {', '.join(row.strangers)}"
