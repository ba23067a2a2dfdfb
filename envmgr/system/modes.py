"""The one place that writes a `chmod` or a `chown` for an administrator to type.

A hint is typed as root, at night, without a second look: one that lets more users read a key, a shadow file or a home
does harm that nobody can undo. So a hint takes rights away, or it opens a file that envmgr itself made for all users;
no other.

In a home its user may have put a link anywhere, and may put one there after the audit looked. So what a hint changes
there is changed as that user, who can change only their own files; or it is one name in the home itself, and a link at
that name is not followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from envmgr.system.safe_paths import way_to
from envmgr.system.shelltext import quote, words

TakenRights = Literal["o-w", "go-w", "go-rwx"]


def closing(rights: TakenRights, *paths: str) -> str:
    """Return the command that removes rights."""
    return f"chmod {rights} {' '.join(map(word, paths))}"


def opening(paths: Sequence[str], public: frozenset[str], *, group_only: bool = False) -> str:
    """Return the command by which users can read and enter `paths` again; empty if not all of them are among `public`.

    `public` are exact paths: other files next to them belong to somebody else. `group_only`: the site excludes other
    users.
    """
    if not paths or not public.issuperset(paths):
        return ""
    return f"chmod {'g' if group_only else 'a'}+rX {' '.join(map(word, paths))}"


def as_user(user: str, command: str) -> str:
    """Return `command` for root to type, run with the rights of `user`: a link that they planted leads only to their
    own files.
    """
    return command if user == "root" else f"runuser -u {word(user)} -- {command}"


def give_place(user: str, path: Path) -> str:
    """Return the command that gives a folder to `user`, or a check to make if another user could put a link on the
    way.
    """
    try:
        with way_to(path) as way:
            others = way.fault or way.link
    except OSError:
        others = "it cannot be looked at"
    return ask_about_way(str(path)) if others else f"chown -h {words(user, os.path.realpath(path))}"


def ask_about_way(path: str) -> str:
    """Return the hint for a path with a link or another user's folder on the way: a command could change something
    else.
    """
    return (
        f"`namei -l {word(path)}`: a link or another user's folder is on the way; what it leads to is for "
        "its owner to change"
    )


def ask_owner(paths: Sequence[str], *, whom: str, to: str = "read") -> str:
    """Return the hint for files that are not envmgr's: only their owner knows who may `to` them."""
    them = "it" if len(paths) == 1 else "them"
    return (
        f"`ls -ld {' '.join(map(word, paths))}`: who closed {them}, and is that meant? "
        f"whether {whom} may {to} {them} is for the owner to say"
    )


def word(path: str) -> str:
    """Return one word of a shell, in which `~user` stays a home."""
    home, rest = match.groups() if (match := re.fullmatch(r"(~[A-Za-z0-9_.-]*/)(.*)", path)) else ("", path)
    return f"{home}{quote(rest)}" if rest else home
