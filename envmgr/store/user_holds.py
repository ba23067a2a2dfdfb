"""Holds: what users' environments stand on, so that `gc` keeps it. A small file for each user, named by the uid.

The folder is sticky and open to all, as /tmp is. A reader believes nothing in it but the file's owner, and takes few and
short rows that name installs of the store, for a bounded time.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import Field, ValidationError

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.store.manifest import read_manifest
from envmgr.store.prefix import Install, Prefix
from envmgr.system.files import atomic_write, pretty_json
from envmgr.system.models import FrozenModel
from envmgr.system.safe_paths import change, remove_below
from envmgr.system.untrusted_files import Kind, read_bytes, why_unreadable
from envmgr.system.usernames import user_name
from envmgr.wording import one_line

_DAYS = 400  # that a hold counts; each change of an environment begins them again
_FILE = Kind("hold", 256 << 10)
_MOST = 2000  # installs of one user
_INSTALL = re.compile(r"store/[A-Za-z0-9._+-]+/[A-Za-z0-9._+-]+-[0-9a-f]{8}")


class _Holds(FrozenModel):
    schema_version: int = Field(alias="schema")
    environments: str = Field(max_length=200)
    until: datetime.date
    installs: tuple[str, ...] = Field(max_length=_MOST)


def holds_folder(site: Site) -> Path:
    """Return the folder of holds."""
    return site.users.holds or Prefix(site.prefix).user_holds


def make_holds_folder(site: Site) -> None:
    """Make the default folder, open to all users, where it is not there yet. Call it as who writes the prefix."""
    folder = holds_folder(site)
    if site.users.holds is None and not folder.is_dir():
        folder.mkdir(exist_ok=True)
        change(folder, mode=0o1777, kinds=(stat.S_ISDIR,))


def write_holds(site: Site, environments: Iterable[tuple[str, Install]]) -> tuple[str, str]:
    """Write what this user's environments stand on; a second install of one counts, too.

    Return the day until which that is kept, and why nothing could be written; one of the two is empty.
    """
    until = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=_DAYS - 1)
    prefix = Prefix(site.prefix)
    names, paths = set[str](), set[str]()
    for name, install in environments:
        names.add(name)
        with suppress(EnvmgrError):
            stands_on = read_manifest(install.manifest).provenance.get("stands_on", ())
            paths.update(prefix.named(str(path)) for path in stands_on)
    folder = holds_folder(site)
    place = folder / str(os.getuid())
    named = ", ".join(sorted(names))
    content = {
        "schema": 1,
        "environments": named if len(named) <= 200 else f"{len(names)} of them",
        "until": until.isoformat(),
        "installs": sorted(paths),
    }
    if len(paths) > _MOST:
        return "", f"they stand on {len(paths)} installs, and {_MOST} are kept for a user"
    try:
        if paths:
            atomic_write(place, pretty_json(content))
        else:
            place.unlink(missing_ok=True)
    except EnvmgrError as error:
        return "", error.message
    except OSError as error:
        return "", f"{folder}: {error.strerror}"
    return until.isoformat(), ""


def clear_false_holds(site: Site, *, dry_run: bool = False) -> Iterator[str]:
    """Remove what is no hold, and yield what was done: what has another's uid for a name keeps that user from holding.

    Other things may lie in a folder that the site names: only what has a number for a name is removed there.
    """
    folder = holds_folder(site)
    with suppress(OSError):
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            ours = site.users.holds is None and not entry.name.startswith(".")  # a write under way begins with a dot
            if (ours or entry.name.isdecimal()) and not _is_hold(entry):
                with suppress(OSError):  # it is gone
                    what = f"{one_line(entry.path)} of {user_name(entry.stat(follow_symlinks=False).st_uid)}"
                    yield f"would remove {what}: no hold" if dry_run else _clear(folder, Path(entry.path), what)


def _clear(folder: Path, path: Path, what: str) -> str:
    """Take away what is no hold: its name is free at once, also where only root can empty it. Return what was done."""
    aside = folder / f"no-hold-{time.monotonic_ns()}"
    try:
        path.rename(aside)
        with suppress(OSError):
            aside.rmdir()  # also one that its owner closed
        remove_below(folder, aside)
    except FileNotFoundError:
        raise
    except (OSError, RecursionError) as error:  # another user's folder, or one that is nested too deep
        place = aside if os.path.lexists(aside) else path
        return f"{what} is no hold; only root can remove {one_line(place)} ({one_line(error)})"
    return f"removed {what}: no hold"


def read_holds(site: Site, unread: Callable[[str, str], None] | None = None) -> Iterator[tuple[str, str]]:
    """Yield the path of an install, relative to the prefix, and who holds it until when.

    A file that cannot be read, is too long, a link, or another user's than its name says, holds nothing. `unread` gets
    the user's own file that cannot be read, and why.
    """
    today = datetime.datetime.now(datetime.UTC).date()
    latest = today + datetime.timedelta(days=_DAYS)
    try:
        with os.scandir(holds_folder(site)) as entries:
            names = sorted(entry.name for entry in entries if _is_hold(entry))
    except OSError:
        return
    for name in names:
        try:
            content = _Holds.model_validate(json.loads(read_bytes(holds_folder(site) / name, _FILE)))
        except (OSError, ValueError, RecursionError, ValidationError, EnvmgrError) as error:
            if unread is not None:
                unread(str(holds_folder(site) / name), one_line(why_unreadable(error), 200))
            continue
        if today <= content.until <= latest:
            who = (
                f"environments of {user_name(int(name))} ({one_line(content.environments)}), held until {content.until}"
            )
            yield from ((each, who) for each in content.installs if _INSTALL.fullmatch(each))


def _is_hold(entry: os.DirEntry[str]) -> bool:
    if not entry.name.isdecimal() or entry.name != str(int(entry.name)):
        return False
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == int(entry.name) and status.st_nlink == 1
