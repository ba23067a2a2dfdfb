"""Folders of tests that another user may enter."""

from __future__ import annotations

import sys
from pathlib import Path

import envmgr
from tests.helpers.places import CACHE


def open_to_all(path: Path) -> None:
    """Other users may enter `path`: pytest's folders above it are closed to them."""
    for folder in (path, *path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode & 0o777 | 0o055)


def for_everybody(root: Path) -> list[str]:
    """Words before a command that let other users run this Python and these sources, where they lie in a user's home.

    The home is covered in a mount namespace of that command; its own folders that are needed are put back.
    """
    needed = {Path(p).resolve() for p in (sys.base_prefix, sys.prefix, Path(envmgr.__file__).parents[1], CACHE)}
    closed = {a for p in needed for a in p.parents if a.stat().st_mode & 0o005 != 0o005}
    outermost = {a for a in closed if not closed & set(a.parents)}
    lines = []
    for home in sorted(outermost):
        inside = sorted(p if p.is_dir() else p.parent for p in needed if home in p.parents)
        for number, folder in enumerate(inside):
            lines += [f"mkdir {root}/saved{number}", f"mount --bind {folder} {root}/saved{number}"]
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs {home}")
        for number, folder in enumerate(inside):
            lines += [
                f"mkdir -p {folder}",
                f"mount --bind {root}/saved{number} {folder}",
                f"umount {root}/saved{number}",
            ]
        lines += [f"rmdir {root}/saved{number}" for number in range(len(inside))]
    script = "\n".join(["set -e", *lines, 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"] if lines else []
