"""Paths that modules name: which of them are not there, and which the user cannot enter."""

from __future__ import annotations

from envmgr.system.shelltext import script_text


def named_paths() -> str:
    """The shell function `named_paths`."""
    return script_text(__file__, "sh")
