"""A hint of the audit as data: the command that fixes a finding, and what is for people."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

from envmgr.audit.table import FIXED, Steps


@dataclass(frozen=True, slots=True)
class Action:
    """One step of a hint.

    `run` is a `command` for a shell of root on each of `nodes` (folded), on the file `server` of the prefix, or where
    envmgr runs. `look` is for people: `text` says at what.
    """

    do: Literal["run", "look"]
    nodes: str = ""
    server: bool = False
    command: str = ""
    text: str = ""


def actions_of(steps: Steps, nodes: str) -> tuple[Action, ...]:
    """Return filled-in steps for `nodes` (folded) as data.

    A command that values have spoiled is for people: they come from nodes and from users' files.
    """
    if not _is_whole(steps.run):
        return (Action("look", text=steps.text),) if steps else ()
    run = Action("run", nodes=nodes if steps.at == "node" else "", server=steps.at == "server", command=steps.run)
    return (run, Action("look", text=steps.look)) if steps.look else (run,)


def _is_whole(command: str) -> bool:
    """Return whether it is one of the fixed commands, whole, and can be quoted in a hint."""
    try:
        shlex.split(command)
    except ValueError:
        return False
    return command.startswith(FIXED) and "`" not in command and "\n" not in command
