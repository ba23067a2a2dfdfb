"""The program behind `module` in a shell: Lmod's, or that of Environment Modules 4 and newer."""

from __future__ import annotations

from envmgr.system.shelltext import script_text


def module_tool() -> str:
    """`$module_cmd`, empty without one, and the shell functions `module_ask`, `module_all`, `module_visible`, `module_defaults`."""
    return script_text(__file__, "sh")
