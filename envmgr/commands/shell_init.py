"""`envmgr shell-init`: the few lines that make one shell use the prefix, pinned to a generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from envmgr.commands import Context
from envmgr.errors import InputError
from envmgr.report import Result
from envmgr.system.files import shipped
from envmgr.system.shelltext import assign, quote, script_text

SHELLS = ("bash", "zsh", "sh", "csh", "tcsh")


@dataclass(frozen=True, slots=True)
class ShellInitResult(Result):
    schema: ClassVar[str] = "envmgr.shell-init/1"
    shell: str
    text: str


def shell_lines(ctx: Context, shell: str) -> ShellInitResult:
    """Return the lines for `shell`: `eval "$(envmgr shell-init bash)"`, or a file that the shell's start-up reads."""
    if shell not in SHELLS:
        raise InputError("unknown-shell", f"no lines for the shell `{shell}`", hint=f"known: {', '.join(SHELLS)}")
    lmod = ctx.find_lmod()
    prefix, hook = str(ctx.site.prefix), str(shipped("nodesetup") / "lmod")
    head = f"# envmgr: modules of {prefix}, pinned to the generation that is current when the shell starts\n"
    if shell in ("csh", "tcsh"):
        # csh has no `NAME=VALUE`, which is what `assign` writes.
        init = quote(str(lmod.init_script("csh")))
        given = f"set envmgr_prefix = {quote(prefix)}\nset envmgr_init = {init}\nset envmgr_hook = {quote(hook)}\n"
        return ShellInitResult(shell, head + given + script_text(__file__, "csh"))
    given = assign(
        envmgr_prefix=prefix,
        envmgr_hook=hook,
        envmgr_init=str(lmod.init_script(shell)),
        envmgr_init_bash=str(lmod.init_script("bash")),
        envmgr_init_zsh=str(lmod.init_script("zsh")),
    )
    return ShellInitResult(shell, head + given + script_text(__file__, "sh"))
