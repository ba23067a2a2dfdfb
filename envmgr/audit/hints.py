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


@dataclass(frozen=True, slots=True)
class Hint:
    """The actions that fix a finding; `text` is how people read them."""

    text: str = ""
    actions: tuple[Action, ...] = ()


def look(text: str) -> Hint:
    """Return a hint that only people can follow; an empty one for no text."""
    return Hint(text, (Action("look", text=text),)) if text else Hint()


def hint_of(steps: Steps | str, nodes: str) -> Hint:
    """Return the hint of filled-in steps for `nodes` (folded).

    A command that values have spoiled is for people: they come from nodes and from users' files.
    """
    if isinstance(steps, str):
        return look(steps)
    if not steps.run or not _is_whole(steps.run):
        return look(steps.text)
    step = Action("run", nodes=nodes if steps.at == "node" else "", server=steps.at == "server", command=steps.run)
    return Hint(steps.text, (step, *look(steps.look).actions))


def _is_whole(command: str) -> bool:
    """Return whether it is one of the fixed commands, whole, and can be quoted in a hint."""
    try:
        shlex.split(command)
    except ValueError:
        return False
    return command.startswith(FIXED) and "`" not in command and "\n" not in command
