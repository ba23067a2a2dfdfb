"""Checks that no code runs that another user could have written: easyconfigs are programs."""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from envmgr.backends.easybuild.settings import own_easyconfigs
from envmgr.catalog.site import Site
from envmgr.errors import InputError
from envmgr.system.modes import ask_about_way, closing
from envmgr.system.usernames import user_name

_STICKY_DOOR = stat.S_ISVTX  # in /tmp other users may write, but not rename root's files


def require_own_easyconfigs(site: Site) -> None:
    """Raise InputError `easyconfig-untrusted` for a folder of the site that other users may write to, or a file in one.

    Those that ship with envmgr are as safe as envmgr itself.
    """
    for root in own_easyconfigs(site):
        if not root.exists():
            continue
        for path in (*_way_to(root), *_way_to(root.resolve()), *_inside(root)):
            if why := fault_of(path):
                text = "an easyconfig is a program, which root would run: the site names no build user to run it as"
                hint = f"name a build_user in site.yaml; or {_fix_for(path)}"
                raise InputError("easyconfig-untrusted", f"{path} {why}", context=text, hint=hint)


def _fix_for(path: Path) -> str:
    """Return the fix. `chown` and `chmod` of a link would change its target, which may belong to any user."""
    if path.resolve() != path.absolute():
        return ask_about_way(str(path))
    return f"look at it, then `chown` it, or `{closing('go-w', str(path))}`"


def only_ours(path: Path) -> bool:
    """Return whether only root and the caller can change the file at `path`, or put another in its place."""
    return not any(fault_of(each) for each in (*_way_to(path), *_way_to(path.resolve()), path) if os.path.lexists(each))


def fault_on_the_way(path: Path) -> str:
    """Return the first unsafe place and its fault, among `path`, its link's target and all folders above.

    Through such a place another user could change `path`. Empty if there is none.
    """
    for place in dict.fromkeys((*_way_to(path), path, *_way_to(path.resolve()), path.resolve())):
        if why := fault_of(place):
            return f"{place} {why}"
    return ""


def fault_below(folder: Path) -> str:
    """Return the first unsafe place below `folder` and its fault; empty without one.

    A link is a fault: its target lies elsewhere. Raises OSError.
    """
    waiting, harmless = [str(folder)], dict[tuple[int, int], bool]()
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    return f"{entry.path} is a link"
                if why := _fault_in(entry.stat(), harmless):
                    return f"{entry.path} {why}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return ""


def fault_of(path: Path) -> str:
    """Return why another user could write to `path`, by its owner or mode; empty if no other user can."""
    try:
        return _fault_in(path.stat())
    except OSError:
        return ""  # a link to nowhere has nothing to run


def _fault_in(status: os.stat_result, harmless: dict[tuple[int, int], bool] | None = None) -> str:
    """Return the fault; `harmless` remembers (owner, group) -> whether the owner is the group's only member."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to {user_name(status.st_uid)}, neither to you nor to root"
    if stat.S_ISDIR(status.st_mode) and status.st_mode & _STICKY_DOOR:
        return ""
    if status.st_mode & 0o002:
        return "can be written by everyone"
    if not status.st_mode & 0o020 or status.st_gid == 0:
        return ""
    known = {} if harmless is None else harmless
    key = (status.st_uid, status.st_gid)
    if key not in known:
        known[key] = _alone_in_group(*key)
    return "" if known[key] else "can be written by its group"


def _alone_in_group(uid: int, gid: int) -> bool:
    """Return whether it is the user's private group, as most systems make one: of the same name, without others."""
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    name = user_name(uid)
    return group.gr_name == name and set(group.gr_mem) <= {name}


def _way_to(path: Path) -> Iterator[Path]:
    yield from reversed(path.absolute().parents)


def _inside(root: Path) -> Iterator[Path]:
    yield root
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if name != ".git"]
        for path in (Path(folder, name) for name in sorted([*folders, *files])):
            yield path
            if path.is_symlink():  # who can rename a folder above its target can replace it
                yield from _way_to(path.resolve())
