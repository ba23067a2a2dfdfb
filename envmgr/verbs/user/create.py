"""`envmgr user create`: an environment of a user's own packages on a published entry."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from envmgr.errors import InputError
from envmgr.people.lock import read_lock
from envmgr.people.lock_checks import require_sound
from envmgr.people.places import UserPlaces, place_at, require_name, user_places
from envmgr.people.solve import solve
from envmgr.people.wishes import rows_of, wish_of
from envmgr.steps import Context, published_record
from envmgr.steps.user import UserResult, ask_for, base_of, changing, explained, make_environment, specs_of
from envmgr.verbs import DryRun, needs, option
from envmgr.verbs.user import Jobs, Name, Packages, Replace, Requirements


@needs("prefix")
def create(
    ctx: Context,
    name: Name,
    packages: Packages = None,
    on: Annotated[str | None, option("The published entry, as name/version.", "ENTRY")] = None,
    requirements: Requirements = None,
    replace: Replace = None,
    editable: Annotated[
        list[Path] | None, option("Use the Python files of this folder as they are, not locked.", "FOLDER")
    ] = None,
    from_lock: Annotated[Path | None, option("Take exactly the packages of this lock.", "FILE")] = None,
    at: Annotated[Path | None, option("Put it there, and not below ~/.local/share.", "FOLDER")] = None,
    jobs: Jobs = 0,
    dry_run: DryRun = False,
) -> UserResult:
    """Make an environment on a published entry.

    It has only what the entry lacks, and no package of the entry a second time. Load it by `module load user/NAME`.
    """
    require_name(name)
    places = user_places(ctx.environ)
    _require_free(places, name)
    place = (places.link(name), places.prefix) if at is None else place_at(at)
    record = published_record(ctx)
    if from_lock is not None:
        if on is not None or packages or requirements is not None or replace or editable:
            hint = "name nothing else beside --from-lock"
            raise InputError("lock-only", "a lock says all of an environment", hint=hint)
        lock = read_lock(from_lock)
        _folders([Path(each) for each in lock.editable])
        base = base_of(ctx, lock, record)
        with explained():
            require_sound(lock, base, ctx.site, from_lock)
    elif on is None:
        raise InputError("entry-missing", "an environment stands on an entry", hint="name it by `--on ENTRY`")
    else:
        base = ask_for(ctx, on, record)
        rows = rows_of(packages or (), requirements, ctx.runner, ctx.reporter)
        wish = wish_of(rows, replace or (), _folders(editable or ()))
        with explained():
            lock = solve(wish, base, partial(specs_of, ctx, record), ctx.site, ctx.runner, ctx.reporter)
    with changing(ctx, places, name, dry_run=dry_run):
        _require_free(places, name)  # another run may have made it meanwhile
        return make_environment(ctx, places, name, lock, base, place, {}, jobs=jobs, dry_run=dry_run)


def _folders(editable: Sequence[Path]) -> tuple[str, ...]:
    for each in editable:
        if not each.is_dir():
            hint = "`--editable` names a folder of Python files"
            raise InputError("folder-missing", f"there is no folder {each}", hint=hint)
    return tuple(str(each.resolve()) for each in editable)


def _require_free(places: UserPlaces, name: str) -> None:
    if os.path.lexists(places.link(name)):
        hint = f"`envmgr user add {name} PACKAGE` adds to it"
        raise InputError("name-taken", f"there is an environment `{name}` already", hint=hint)
