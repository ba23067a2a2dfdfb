"""`envmgr user list`, `show`, `export` and `delete`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from envmgr.errors import EnvmgrError
from envmgr.people.environments import amount, base_state, installs_of, require_environment, strangers
from envmgr.people.lock import lock_of, lock_text
from envmgr.people.places import UserPlaces, user_places
from envmgr.publish.records import GenerationRecord
from envmgr.report import Lines, Result, Table, Verbatim
from envmgr.steps import Context, published_record
from envmgr.steps.user import changing, remove_environment
from envmgr.system.files import atomic_write
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
        yield from _rows(self.environments)


@dataclass(frozen=True, slots=True)
class UserShowResult(Result):
    """One environment of this user."""

    schema: ClassVar[str] = "envmgr.user-show/1"
    environment: UserRow

    def lines(self) -> Lines:
        row = self.environment
        yield from _rows([row])
        yield f"asked for: {', '.join(row.requirements) or 'nothing'}"
        for package in row.packages:
            yield f"  {package}"
        for folder in row.editable:
            yield f"  {folder}, as it is: no lock holds it"
        yield f"in {row.path}"


@dataclass(frozen=True, slots=True)
class UserDeleteResult(Result):
    """An environment that was deleted, or would be. `inodes` and `size` (bytes) came free."""

    schema: ClassVar[str] = "envmgr.user-delete/1"
    name: str
    path: str
    inodes: int
    size: int
    dry_run: bool

    def lines(self) -> Lines:
        done = "would delete" if self.dry_run else "deleted"
        yield f"{done} user/{self.name}: {inodes_text(self.inodes, self.size)}"


@dataclass(frozen=True, slots=True)
class UserExportResult(Result):
    """The lock of an environment as text; `output` is its file, None for none. `rows` ask for just its packages, in a
    recipe such as that of the entry `on`.
    """

    schema: ClassVar[str] = "envmgr.user-export/1"
    name: str
    on: str
    rows: tuple[str, ...]
    text: str
    output: Path | None
    dry_run: bool

    def lines(self) -> Lines:
        if self.output is None:
            yield Verbatim(self.text)
            return
        done = "would write" if self.dry_run else "wrote"
        yield f"{done} {self.output}: `envmgr user create NAME --from-lock {self.output}` makes the same packages"
        yield f"as an entry on a bare Python: `envmgr import {self.output} --as NAME/VERSION`"
        yield f"as one with all of {self.on}: a copy of its recipe, with these rows in `pip` (of wheels: `requirements`)"
        yield f"  [{', '.join(self.rows)}]"


def list_environments(ctx: Context) -> UserListResult:
    """Return the state of all environments."""
    places, record = user_places(ctx.environ), _record(ctx)
    return UserListResult(str(places.folder), tuple(_row(places, name, record) for name in places.names()))


def show_environment(ctx: Context, name: str) -> UserShowResult:
    """Return the state of one environment. Raise InputError `no-environment`."""
    return UserShowResult(_row(user_places(ctx.environ), name, _record(ctx)))


def _record(ctx: Context) -> GenerationRecord | None:
    """Return the current generation; None if it cannot be read: what is asked for is the user's own."""
    try:
        return published_record(ctx)
    except EnvmgrError:
        return None


def _row(places: UserPlaces, name: str, record: GenerationRecord | None) -> UserRow:
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


def delete_environment(ctx: Context, name: str, *, dry_run: bool = False) -> UserDeleteResult:
    """Delete an environment with all its installs. Raise InputError `no-environment`."""
    places = user_places(ctx.environ)
    require_environment(places, name)  # before a lock is made
    with changing(ctx, places, name, dry_run=dry_run):
        install = require_environment(places, name)
        inodes, size = amount(installs_of(install.prefix, name))
        if not dry_run:
            remove_environment(ctx, places, name)
        return UserDeleteResult(name, str(install.path), inodes, size, dry_run)


def export_environment(ctx: Context, name: str, output: Path | None, *, dry_run: bool = False) -> UserExportResult:
    """Return the lock, from which another user makes the same packages. Raise InputError `no-environment`."""
    lock = lock_of(require_environment(user_places(ctx.environ), name))
    text, rows = lock_text(lock), tuple(f"{each}=={version}" for each, version in sorted(lock.versions.items()))
    if output is not None and not dry_run:
        atomic_write(output, text)
    return UserExportResult(name, lock.on, rows, text, output, dry_run)


def _rows(rows: Sequence[UserRow]) -> Lines:
    yield Table(
        [f"user/{row.name}", row.on or "?", row.base, row.fault or inodes_text(row.inodes, row.size)] for row in rows
    )
    for row in rows:
        if row.base in _BASES:
            yield f"{row.name}: {_BASES[row.base].format(on=row.on, name=row.name)}"
        if row.strangers:
            yield f"{row.name}: its lock does not have {', '.join(row.strangers)}"
