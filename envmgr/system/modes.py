"""The one place that writes a `chmod` for an administrator to type.

A hint is typed as root, at night, without a second look: one that lets more users read a key, a shadow file or a home does harm that
nobody can take back. So a hint takes rights away, or it opens a file that envmgr itself made for all users; no other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from envmgr.system.shelltext import quote

TakenRights = Literal["o-w", "go-w", "go-rwx"]


def closing(rights: TakenRights, *paths: str) -> str:
    """The command that takes rights away."""
    return f"chmod {rights} {' '.join(map(_word, paths))}"


def opening(paths: Sequence[str], public: frozenset[str], *, group_only: bool = False) -> str:
    """The command by which users can read and enter `paths` again; empty where not all of them are among `public`.

    `public` are exact paths: what else lies beside them is somebody's. `group_only`: the site keeps other users out.
    """
    if not paths or not public.issuperset(paths):
        return ""
    return f"chmod {'g' if group_only else 'a'}+rX {' '.join(map(_word, paths))}"


def ask_owner(paths: Sequence[str], *, whom: str, to: str = "read") -> str:
    """The hint for files that are not envmgr's: nobody but their owner knows who may `to` them."""
    them = "it" if len(paths) == 1 else "them"
    return (
        f"`ls -ld {' '.join(map(_word, paths))}`: who closed {them}, and is that meant? "
        f"whether {whom} may {to} {them} is for the owner to say"
    )


def _word(path: str) -> str:
    """One word of a shell, in which `~user` stays a home."""
    home, rest = match.groups() if (match := re.fullmatch(r"(~[A-Za-z0-9_.-]*/)(.*)", path)) else ("", path)
    return f"{home}{quote(rest)}" if rest else home
