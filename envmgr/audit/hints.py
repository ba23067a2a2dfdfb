"""A hint of the audit as data: what to run and which line to delete or to add, in the order in which it is done. Its
text is made from that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from envmgr.nodes.sets import fold

_NODES = re.compile(r" --nodes \S+")
_COMMAND = re.compile(
    r"(?P<where>on the node: |on the server: |(?=`(?:envmgr node-setup --apply|runuser|chmod|chown|set[a-z]+|echo|scp) ))`(?P<command>[^`]+)`(?P<rest>.*)",
    re.DOTALL,
)
# A line that a check read by itself, of a file that is no start-up file.
_LINE = re.compile(r"(?:take the line (?=\S+ away)|^(?=.*take that line away))(?P<file>/[^\s:]+):(?P<line>\d+)\b")
# Programs that only look: people read what they say.
_LOOKS = frozenset(
    "cat df dmesg du findmnt fuser getfacl grep ldd ls module nvidia-smi ps rpm sha256sum stat timeout type".split()
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
    """Return the hint that a text of the house form is: "on the node: `COMMAND`; WHAT ELSE THERE IS TO SAY".

    A command of which the text only says where to look is for people.
    """
    if line := _LINE.search(text):
        return delete(Place("", line["file"], int(line["line"])), nodes, text)
    found = _COMMAND.match(text)
    if found is None or _only_looks(found["command"]):
        return look(text)
    where = found["where"].removesuffix(": ")
    step = Action(
        "run",
        nodes=fold(nodes) if where == "on the node" else "",
        server=where == "on the server",
        command=found["command"],
    )
    rest = Action("look", text=found["rest"].lstrip(",;: "))
    return Hint(text, tuple(action for action in (step, rest) if action.words))


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
