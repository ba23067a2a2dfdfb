"""A hint of the audit as data: what to run and which line to delete or to add, in the order in which it is done."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from envmgr.audit.table import Steps
from envmgr.nodes.sets import fold

_NODES = re.compile(r" --nodes \S+")
_AT = re.compile(r"(/[^\s:]+):(\d+)")


@dataclass(frozen=True, slots=True)
class LinePlace:
    """A line of a start-up file, as it was traced on `node`. `text` is the line, empty if it could not be read.

    `stands` is how: `alone`; `inside` a block; as the `only` command where the shell needs one; as a `part` of a longer
    command. `unlike` are the nodes, folded, on which the file is known to be another.
    """

    node: str
    file: str
    line: int
    text: str = ""
    stands: str = "alone"
    unlike: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def seen_from(self, nodes: Iterable[str]) -> str:
        """Return the place in words; with its node, if that is not among `nodes`."""
        return str(self) if self.node in nodes else f"{self} on {self.node}"


@dataclass(frozen=True, slots=True)
class Action:
    """One step of a hint.

    `run` is a `command` for a shell of root on each of `nodes` (folded), on the file `server` of the prefix, or where
    envmgr runs. `delete` and `add` are about the line with this `text` of a `file` of `nodes`; `line` is its number where it was
    seen. What is not empty in `instead` comes in the place of a line that is deleted. `look` is for people: `text` says at what.
    """

    do: Literal["run", "delete", "add", "look"]
    nodes: str = ""
    server: bool = False
    command: str = ""
    file: str = ""
    line: int = 0
    text: str = ""
    instead: str = ""

    @property
    def key(self) -> str:
        """Return what the step fixes: findings with the same key on the same nodes have one cause. Empty for `look`."""
        if self.do == "run":
            return f"run {_NODES.sub('', self.command)}"
        return f"file {self.file}" if self.do in ("delete", "add") else ""


@dataclass(frozen=True, slots=True)
class Hint:
    """The actions that fix a finding; `text` is how people read them. `about` names the cause, if no step does."""

    text: str = ""
    actions: tuple[Action, ...] = ()
    about: str = ""

    def __bool__(self) -> bool:
        return bool(self.text)


def look(text: str) -> Hint:
    """Return a hint that only people can follow; an empty one for no text."""
    return Hint(text, (Action("look", text=text),)) if text else Hint()


def hint_of(steps: Steps | str, nodes: Iterable[str], place: LinePlace | None = None) -> Hint:
    """Return the hint of filled-in steps for `nodes`. `place` is the line to delete, where it was traced.

    A command or a line that values have spoiled is for people: they come from nodes and from users' files.
    """
    if isinstance(steps, str):
        return look(steps)
    if steps.delete:
        at = _AT.fullmatch(steps.delete)
        place = place or (LinePlace("", at[1], int(at[2])) if at else None)
        return (
            delete(place, nodes, steps.model_copy(update={"away": _away(place, steps)}).text)
            if place
            else look(steps.text)
        )
    if not steps.run or not _is_whole(steps.run):
        return look(steps.text)
    on = fold(nodes) if steps.at == "node" else ""
    step = Action("run", nodes=on, server=steps.at == "server", command=steps.run)
    again = [Action("run", command=steps.then)] if steps.then else []
    return Hint(steps.text, (step, *again, *look(steps.look).actions))


def _is_whole(command: str) -> bool:
    """Return whether it is one whole command for a shell, which a hint can quote."""
    try:
        shlex.split(command)
    except ValueError:
        return False
    return "`" not in command and "\n" not in command


_AWAY = {"only": "put `:` in the place of that line", "part": "take the command away of which that line is a part"}


def _away(place: LinePlace, steps: Steps) -> str:
    """Return in words how the line of a place is taken away, or why it is not."""
    if is_vendors(place):
        return (
            f"a package's file, which is not as on {place.unlike}: compare it"
            if place.unlike
            else "a package's file: compare it with that of the package"
        )
    return _AWAY.get(place.stands, steps.away)


_PROGRAMS = re.compile(r"^/usr/(share|lib(64|exec)?)/|^/(?!etc/).*/[lL]mod/")
# The start-up files that come with the system's shells. Not /etc/environment, whose lines are settings of the site.
_VENDORS = re.compile(
    r"/etc/(profile|(bash\.)?bashrc|bash\.bash_logout|csh\.(cshrc|login|logout)|(zsh/)?z(shenv|shrc|profile|login|logout)|ksh\.kshrc)"
)


def is_vendors(place: LinePlace) -> bool:
    """Return whether the file is a start-up file of a package: a line of it may be all that such a shell has."""
    return _VENDORS.fullmatch(place.file) is not None


def of_programs(place: LinePlace) -> bool:
    """Return whether the file came with Lmod or a program of the distribution: no line of it is what is wrong."""
    return _PROGRAMS.search(place.file) is not None


def delete(place: LinePlace, nodes: Iterable[str], text: str, instead: str = "") -> Hint:
    """Return a hint to delete the line of a place on `nodes`; the line of another node, such as a login node, there.

    `instead` comes in its place, or `:` where the shell needs a command. A part of a longer command is for people, and so
    is a file of a package.
    """
    if place.stands == "part" or of_programs(place) or is_vendors(place):
        return Hint(text, look(text).actions, f"file {place.file}")
    of = tuple(nodes)
    on = fold(of if place.node in ("", *of) else (place.node,))
    instead = instead or (":" if place.stands == "only" else "")
    return Hint(text, (Action("delete", on, file=place.file, line=place.line, text=place.text, instead=instead),))


def add(place: LinePlace, nodes: Iterable[str], text: str) -> Hint:
    """Return a hint to add the line of a place, which other nodes have, on `nodes`."""
    return Hint(text, (Action("add", fold(nodes), file=place.file, line=place.line, text=place.text),))
