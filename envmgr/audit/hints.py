"""A hint of the audit as data: what to run and which line to delete or to add, in the order in which it is done."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from envmgr.audit.table import fill
from envmgr.nodes.sets import fold

_NODES = re.compile(r" --nodes \S+")
_COMMAND = re.compile(
    r"(?P<where>on the node: |on the server: |(?=`(?:envmgr node-setup --apply|runuser|chmod|chown|set[a-z]+|echo|scp) ))"
    r"`(?P<command>[^`]+)`(?P<rest>.*)",
    re.DOTALL,
)
_AT = r"(?P<file>/[^\s:]+):(?P<line>\d+)"
# A line that a check read by itself, of a file that is no start-up file: how the code, or a row, speaks of it.
_OWN_LINE = re.compile(rf"on the node: take the line {_AT} away|{_AT.replace('P<', 'P<own_')} is the account of ")
_ROW_LINE = re.compile(r"\{(?P<one>place|line)\} .*take that line away|.*take the line \{(?P<other>place)\} away")
# Values that the code makes as hints, at the beginning of a row's.
_MADE = re.compile(r"\{(fix|opened)\}")
# Programs that only look: people read what they say.
_LOOKS = frozenset(
    "bash cat df dmesg du findmnt fuser getfacl grep ldd ls module nvidia-smi ps rpm sha256sum stat timeout type".split()
)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a start-up file, as it was traced on `node`. `text` is the line, empty if it could not be read."""

    node: str
    file: str
    line: int
    text: str = ""

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
    seen. `look` is for people: `text` says at what.
    """

    do: Literal["run", "delete", "add", "look"]
    nodes: str = ""
    server: bool = False
    command: str = ""
    file: str = ""
    line: int = 0
    text: str = ""

    @property
    def words(self) -> str:
        """Return the text of a step that does not speak of a traced line, whose row has the words."""
        if self.do == "run":
            where = "on the node: " if self.nodes else "on the server: " if self.server else ""
            return f"{where}`{self.command}`"
        return self.text if self.do == "look" else ""

    @property
    def key(self) -> str:
        """Return what the step fixes: findings with the same key on the same nodes have one cause. Empty for `look`."""
        if self.do == "run":
            return f"run {_NODES.sub('', self.command)}"
        return f"file {self.file}" if self.do in ("delete", "add") else ""


@dataclass(frozen=True, slots=True)
class Hint:
    """The steps that fix a finding; `text` is how people read them. `about` names the cause, if no step does."""

    text: str = ""
    actions: tuple[Action, ...] = ()
    about: str = ""

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def undecided(self) -> Hint:
        """Return the same for nodes of which nobody knows which are right: nothing is to be done."""
        about = next((action.key for action in self.actions if action.file), "")
        return Hint(self.text, look(self.text).actions, about)


def hint_of(*actions: Action) -> Hint:
    """Return a hint of steps that need no other words: `on the node: `COMMAND`; WHAT TO LOOK AT`."""
    steps = [action for action in actions if action.words]
    return Hint("; ".join(step.words for step in steps), tuple(steps))


def look(text: str) -> Hint:
    """Return a hint that only people can follow; an empty one for no text."""
    return hint_of(Action("look", text=text))


def hint_in(text: str, nodes: Iterable[str]) -> Hint:
    """Return the hint that a text of the code is: "on the node: `COMMAND`; WHAT ELSE THERE IS TO SAY".

    Only how it begins counts: what it quotes of nodes may say anything. A command of which the text only says where to
    look is for people.
    """
    if found := _OWN_LINE.match(text):
        file, line = found["file"] or found["own_file"], found["line"] or found["own_line"]
        return delete(Place("", file, int(line)), nodes, text)
    command = _COMMAND.match(text)
    return _run(command, command["command"], command["rest"], text, nodes) if command else look(text)


def hint_of_row(template: str, given: Mapping[str, object], nodes: Iterable[str]) -> Hint:
    """Return the hint of a row. What a program may do is read from the row's own words, and then filled in: values come
    from nodes and from users' files, and can say anything.
    """
    text = fill(template, given)
    if made := _MADE.match(template):
        return replace(hint_in(str(given[made[1]]), nodes), text=text)
    if placed := _ROW_LINE.match(template):
        at = re.fullmatch(_AT, str(given[placed["one"] or placed["other"]]))
        return delete(Place("", at["file"], int(at["line"])), nodes, text) if at else look(text)
    command = _COMMAND.match(template)
    if command is None:
        return look(text)
    return _run(command, fill(command["command"], given), fill(command["rest"], given), text, nodes)


def _run(found: re.Match[str], command: str, rest: str, text: str, nodes: Iterable[str]) -> Hint:
    """Return the hint to run a command, unless it only looks, or is no whole command for a shell."""
    try:
        shlex.split(command)
    except ValueError:
        return look(text)
    if "`" in command or "\n" in command or _only_looks(command):
        return look(text)
    where = found["where"].removesuffix(": ")
    on = fold(nodes) if where == "on the node" else ""
    step = Action("run", nodes=on, server=where == "on the server", command=command)
    other = Action("look", text=rest.lstrip(",;: "))
    return Hint(text, tuple(action for action in (step, other) if action.words))


def _only_looks(command: str) -> bool:
    program = command.split(" ", 1)[0].rpartition("/")[2]
    return program in _LOOKS or "| grep" in command or "…" in command or "NODE" in command


def delete(place: Place, nodes: Iterable[str], text: str) -> Hint:
    """Return a hint to delete the line of a place on `nodes`; the line of another node, such as a login node, there."""
    of = tuple(nodes)
    return Hint(text, (_line("delete", place, of if place.node in ("", *of) else (place.node,)),))


def add(place: Place, nodes: Iterable[str], text: str) -> Hint:
    """Return a hint to add the line of a place, which other nodes have, on `nodes`."""
    return Hint(text, (_line("add", place, nodes),))


def _line(do: Literal["delete", "add"], place: Place, nodes: Iterable[str]) -> Action:
    return Action(do, fold(nodes), file=place.file, line=place.line, text=place.text)
