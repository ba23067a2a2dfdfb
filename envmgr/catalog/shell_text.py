"""Checks of a recipe's shell text: each shell that it is for must read it as whole commands. Shells parse it; none runs
it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence

_PARSERS = (("bash", "--noprofile", "--norc", "-n"), ("sh", "-n"), ("zsh", "-f", "-n"))
_PATH = "/usr/local/bin:/usr/bin:/bin"
_TIMEOUT = 60.0  # seconds
_HISTORY = re.compile(r"(?<!\\)!(?![\s=(]|$)")  # tcsh(1), "History substitution"; in quotes too

# Builtins and reserved words, in whose place a function would stand. Sources: bash(1), dash(1), zshbuiltins(1),
# tcsh(1), Lmod.
SHELL_WORDS = frozenset(
    """
    alias alloc autoload bg bind bindkey break breaksw builtin builtins bye caller case cd chdir command compgen
    complete compopt continue coproc declare default dirs disable disown do done echo echotc elif else emulate
    enable end endif endsw esac eval exec exit export false fc fg fi filetest float for foreach function functions
    getln getopts glob goto hash hashstat help history hup if in integer jobs kill let limit local log login logout
    mapfile ml module nice nocorrect noglob nohup notify onintr popd print printenv printf private pushd pushln pwd
    read readarray readonly rehash repeat return sched select set setenv setopt settc setty shift shopt source stop
    suspend switch telltc termname test then time times trap true ttyctl type typeset ulimit umask unalias
    uncomplete unfunction unhash unlimit unset unsetenv unsetopt until vared wait whence where which while zle
    zmodload zstyle
    """.split()
)


def fault_in_posix(text: str) -> str:
    """Return why bash, sh and zsh, as far as they are installed, do not read `text` as the whole body of one function;
    empty if they do.

    Text that is whole commands both by itself and between the braces of a function closes no function and opens none.
    """
    parsers = [(found, *words) for name, *words in _PARSERS if (found := shutil.which(name, path=_PATH))]
    if not parsers:
        return "no shell is here that could read it: bash or sh is needed"
    for argv in parsers:
        for whole in (f"{text}\n", f"f() {{\n{text}\n}}\n"):
            if (said := _fault_of_parser(argv, whole, LC_ALL="C.UTF-8")) is not None:
                return f"is not whole commands in {argv[0].rpartition('/')[2]}{f': {said}' if said else ''}"
    return ""


def fault_in_csh(text: str) -> str:
    """Return why csh would change the text, which Lmod hands over in backquotes; empty if it would not."""
    if not text.isascii():
        return "tcsh loses bytes of characters that are not ASCII, where the locale is C"
    for word in text.split():
        if "{" in word and word != "{":
            return f"csh opens braces, in quotes too: `{word[:40]}`"
    if found := _HISTORY.search(text):
        return f"csh reads `{text[found.start() : found.start() + 40]}` as a line of its history"
    return "a backslash at its end may quote what follows" if text.endswith("\\") else ""


def fault_in_tcsh(text: str) -> str:
    """Return why tcsh, if it is installed, does not read the text as whole commands; empty if it does. tcsh parses it
    and runs nothing.
    """
    if (tcsh := shutil.which("tcsh", path=_PATH)) is None:
        return ""
    said = _fault_of_parser([tcsh, "-f", "-n"], f"{text}\n")
    return "" if said is None else f"is not whole commands in tcsh: {said}"


def _fault_of_parser(argv: Sequence[str], text: str, **env: str) -> str | None:
    """Return what a shell that only parses `text` says against it; None if it says nothing and ends well."""
    from envmgr.system.run import Runner, clean_env  # most recipes have no shell text

    done = Runner().run(argv, stdin=text, env=clean_env(**env), timeout=_TIMEOUT, check=False)
    said = " ".join(done.stderr.split())[:200]
    return said if done.returncode or said else None
