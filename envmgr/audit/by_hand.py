"""What to do about a shell that does not start, or that starts in another mode than it should."""

from __future__ import annotations

from envmgr.probe.model import ShellContext
from envmgr.probe.shell import NO_USER, NO_USER_HINT


def by_hand(context: ShellContext, end: str, place: str) -> str:
    """The hint for a shell that ended as `end` says; `place` is the line that ended it, where a trace shows one."""
    if end.startswith(NO_USER):
        return NO_USER_HINT
    if place:
        return f"{place} ends the shell, or puts another program in its place: let it do that at a terminal alone, by `case $- in *i*)`"
    commands = {
        "bash-login": "bash -l",
        "bash": "bash -c true",
        "csh": "csh -c true",
        "sh": "sh -c true",
        "wrap": "sh -c true",
        "zsh": "zsh -lc true",
        "bash-interactive": "bash -i",
    }
    if context.step:
        command = "srun --pty bash -i" if context.shell == "bash-interactive" else "srun bash -c true"
        return f"try `{command}` in a job of that user on the node"
    return f"try `{commands[context.shell]}` as that user on the node"


def posix_hint(place: str) -> str:
    """The hint for a bash in posix mode, in which it reads neither start-up files nor BASH_ENV; `place` sets POSIXLY_CORRECT."""
    mode = "bash is in posix mode there, and reads no file that defines `module`"
    if place:
        return f"{place} sets POSIXLY_CORRECT: {mode}; take that line away"
    return f"{mode}: which start-up file sets POSIXLY_CORRECT, or says `set -o posix`?"
