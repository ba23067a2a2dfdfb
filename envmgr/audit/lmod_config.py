"""Lmod's own account of its configuration, in one form everywhere: for checks that run in the stages `login` and `context`."""

from __future__ import annotations

from envmgr.system.shelltext import assign, script_text


def lmod_config() -> str:
    """The functions `lmod_config`, `lmod_lines` and `lmod_value`."""
    return assign(lmod_reader=script_text(__file__, "lua")) + script_text(__file__, "sh")
