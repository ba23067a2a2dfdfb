"""`envmgr shell-init`: the few lines that make one shell use the prefix, pinned to a generation."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from envmgr.errors import InputError
from envmgr.report import Lines, Result, Verbatim
from envmgr.steps import Context
from envmgr.steps.opening import require_mount
from envmgr.store.place import require_place
from envmgr.system.files import shipped
from envmgr.system.shelltext import assign, quote, script_text
from envmgr.verbs import argument, needs

SHELLS = ("bash", "zsh", "sh", "csh", "tcsh", "fish")
_OF_CSH = ("csh", "tcsh")


@dataclass(frozen=True, slots=True)
class ShellInitResult(Result):
    schema: ClassVar[str] = "envmgr.shell-init/1"
    shell: str
    text: str

    def lines(self) -> Lines:
        yield Verbatim(self.text)


@needs("nothing")
def shell_init(
    ctx: Context, shell: Annotated[str, argument("Name of the shell.", "bash|zsh|sh|csh|tcsh|fish")] = "bash"
) -> ShellInitResult:
    """Print the lines that make a shell use the prefix.

    Put this into a start-up file of the shell: eval "$(envmgr shell-init)".
    """
    if shell not in SHELLS:
        raise InputError("unknown-shell", f"no lines for the shell `{shell}`", hint=f"known: {', '.join(SHELLS)}")
    if shell in _OF_CSH and _is_evaluated():
        message = f"{shell} joins the lines of a command to one, and cannot read them so"
        hint = f"`envmgr shell-init {shell} > ~/.envmgr.csh`; then, in ~/.cshrc, or in ~/.tcshrc if you have one: "
        raise InputError("eval-of-csh", message, hint=f"{hint}`source ~/.envmgr.csh`")
    require_mount(ctx.site)
    require_place(ctx.prefix)
    lmod = ctx.find_lmod()
    prefix, hook = str(ctx.site.prefix), str(shipped("nodesetup") / "lmod")
    head = f"# envmgr: modules of {prefix}, pinned to the generation that is current when the shell starts\n"
    if shell == "fish":
        values = {"envmgr_prefix": prefix, "envmgr_hook": hook, "envmgr_init": str(lmod.init_script("fish"))}
        # fish reads a backslash within single quotes, too.
        rows = "".join(
            f"set -g {name} {quote(value.replace(chr(92), chr(92) * 2))}\n" for name, value in values.items()
        )
        return ShellInitResult(shell, head + rows + script_text(__file__, "fish"))
    if shell in _OF_CSH:
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


def _is_evaluated() -> bool:
    """Return whether a csh reads what this process writes: it is the parent, and stdout is a pipe and no file."""
    with suppress(OSError, ValueError):
        name = Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
        return name in ("csh", "tcsh", "bsd-csh") and stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    return False
