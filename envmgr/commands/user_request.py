"""`envmgr user request`: ask for an environment as an entry of the site's catalog."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from envmgr.catalog.entries import closed_catalog
from envmgr.catalog.names import Entry, parse_entry
from envmgr.commands import Context, published_record
from envmgr.commands.catalog import check_catalog
from envmgr.commands.entry_faults import require_new_name
from envmgr.commands.user import generation_of
from envmgr.errors import InputError
from envmgr.people.environments import amount, require_environment
from envmgr.people.lock import lock_of
from envmgr.people.places import user_places
from envmgr.people.request import (
    REQUEST_NAME,
    RequestedPackage,
    entry_files,
    lock_below,
    request_text,
    requested_packages,
)
from envmgr.report import Result
from envmgr.system.files import atomic_write, explain_os_error
from envmgr.system.scratch import clear_dead_scratch, copy_folder, scratch_folder
from envmgr.wording import shortened


@dataclass(frozen=True, slots=True)
class UserRequestResult(Result):
    """A request that was written. `base` is the digest of the install of `on`; `files` lie below `folder`.

    `left_out` are folders that the environment uses as they are, which no lock holds.
    """

    schema: ClassVar[str] = "envmgr.user-request/1"
    name: str
    entry: str
    on: str
    base: str
    folder: str
    files: tuple[str, ...]
    packages: tuple[RequestedPackage, ...]
    left_out: tuple[str, ...]
    dry_run: bool


def request_entry(
    ctx: Context,
    name: str,
    *,
    wanted: str | None = None,
    why: str = "",
    output: Path | None = None,
    dry_run: bool = False,
) -> UserRequestResult:
    """Write recipe, lock and the text of a pull request for the packages of an environment into a new folder.

    What is written passes `catalog check` with the site's catalogs as this user sees them.

    Raises:
        InputError: `no-environment`, `base-differs`, `nothing-to-request`, `not-requestable`, `entry-exists`, `entry-clash`,
            `place-taken`.
    """
    install = require_environment(user_places(ctx.environ), name)
    lock = lock_of(install)
    current = published_record(ctx)
    if not lock.wheels.wheels:
        raise InputError(
            "nothing-to-request",
            f"user/{name} has no package that {lock.on} lacks",
            hint=f"`envmgr user add {name} PACKAGE` adds one",
        )
    published = generation_of(ctx, lock, current, name).entries[lock.on]
    entry = parse_entry(wanted or lock.on.replace("/", f"-{name}/"))
    open_ones = tuple(root for root in ctx.site.catalogs if closed_catalog(root) is None)
    site = ctx.site.model_copy(update={"catalogs": open_ones})
    if str(entry) in current.entries or replace(ctx, site=site).catalog.look(entry):
        raise InputError("entry-exists", f"there is {entry} already", hint="name another one by `--as NAME/VERSION`")
    require_new_name(entry, replace(ctx, site=site).catalog, ctx.prefix)
    folder = output or Path(f"request-{name}")
    if not dry_run:
        clear_dead_scratch(folder.parent)
    _require_free(folder)
    with scratch_folder("request") if dry_run else copy_folder(folder.parent) as made:
        source = lock_below(published, lock.on, name, site, made / "below")
        files = {**entry_files(entry, lock, source, published, install, site)}
        root = made / "request"
        with explain_os_error(folder):
            for path, content in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                atomic_write(root / path, content)
        _require_sound(
            replace(ctx, site=site.model_copy(update={"catalogs": (root, *open_ones)})), entry, lock.on, root
        )
        packages = requested_packages(lock, source)
        files[REQUEST_NAME] = request_text(entry, lock, packages, published, ctx.site, why=why, takes=amount([install]))
        with explain_os_error(folder):
            atomic_write(root / REQUEST_NAME, files[REQUEST_NAME])
            if not dry_run:
                _require_free(folder)
                root.rename(folder)
    return UserRequestResult(
        name=name,
        entry=str(entry),
        on=lock.on,
        base=lock.base,
        folder=str(folder),
        files=tuple(files),
        packages=packages,
        left_out=lock.editable,
        dry_run=dry_run,
    )


def _require_free(folder: Path) -> None:
    with explain_os_error(folder):
        if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir() or any(folder.iterdir())):
            raise InputError("place-taken", f"{folder} is there already", hint="name a new folder by `--output`")


def _require_sound(ctx: Context, entry: Entry, below: str, root: Path) -> None:
    """Raise InputError `not-requestable` for an entry that an administrator could not build as it is."""
    faults = [each.found for each in check_catalog(ctx, [str(entry)]).findings if each.severity == "error"]
    if faults:
        raise InputError(
            "not-requestable",
            f"{entry} cannot be built from just the packages of {below} and of the environment",
            context=shortened([fault.replace(f"{root}/", "") for fault in faults]),
            hint="ask the administrators for it in words, with the lock that `envmgr user export` writes",
        )
