"""Folders of modules that are not in MODULEPATH until another module is loaded: a hierarchy, as Lmod calls it."""

from __future__ import annotations

from envmgr.audit.effect import effect
from envmgr.audit.module_tool import module_tool
from envmgr.system.shelltext import assign, script_text


def module_show(chain: str) -> str:
    """The command that shows the last of modules that are loaded in this order."""
    before, _, last = chain.rpartition(" ")
    return f"module load {before} && module show {last}" if before else f"module show {last}"


def opened(draw: int) -> str:
    """The shell functions `choose`, `opened_folders`, `opened_names`, and those that they need; `draw` says which modules are asked of very many."""
    return module_tool() + effect() + assign(opened_draw=draw) + script_text(__file__, "sh")
