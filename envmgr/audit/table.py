"""The table of a check, `NAME.yaml` next to its module: the facts of its shell text, and the words of its findings.

    context:
      contexts.module_alias:
        text: the alias `module`
        warning: "`module` is an alias: {value!c}"
        expected: Lmod's `module`
        cause: module
        hint: "which start-up file says `alias module=`? take it away there"

Facts are listed under the stage that reports them, with the key that the shell text gives to `put`, `own` or `lines`;
`*` stands for the variable part. A fact with `error`, `warning` or `note` is a finding wherever a node reports it.
`reads` names facts of other checks. `rows` has the words of findings whose conditions the module's `judge` decides.
CONTRIBUTING lists all fields in one table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, Literal

from pydantic import Field, model_validator

from envmgr.report import Severity
from envmgr.system.models import FrozenModel
from envmgr.system.shelltext import quote
from envmgr.system.yamlfile import parse_yaml

Where = Literal["node", "server", "here"]
WHERE: Mapping[Where, str] = {"node": "on the node: ", "server": "on the server: ", "here": ""}
"""Where a command is typed -> how its hint begins."""
FIXED = ("umount ", "mount -o remount,", "chmod ", "ldconfig", "envmgr node-setup --apply", "scontrol ")
"""All commands that a hint gives as data begin so: none of them copies or edits a file."""


class Steps(FrozenModel):
    """Steps that fix a finding, as data; a text without more is `look`. In a table they are templates.

    `run` is a command for a shell of root `at` the node, the file server of the prefix, or here, where envmgr runs. Only one that
    begins as FIXED is also data: other commands, and `look`, are for people.
    """

    run: str = ""
    at: Where = "node"
    look: str = ""

    @model_validator(mode="before")
    @classmethod
    def _text_alone(cls, value: Any) -> Any:
        return {"look": value} if isinstance(value, str) else value

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def text(self) -> str:
        """Return how people read it."""
        if not self.run:
            return self.look
        first = f"{WHERE[self.at]}`{self.run}`"
        return f"{first}{', ' if self.look.startswith(_GOES_ON) else '; '}{self.look}" if self.look else first

    def filled(self, values: Mapping[str, object]) -> Steps:
        """Return the same with the values of its templates; see `fill`."""
        return Steps(**{name: fill(text, values) for name, text in self.model_dump().items()})


_GOES_ON = ("and ", "once ", "or ", "then ", "unless ")


class Words(FrozenModel):
    """The words of one finding, as templates: `{value}` and what else its caller fills in.

    One of `error`, `warning` and `note` has the finding's text. `where` is its place; in a shell the default is that
    shell. `cause` names variables, or commands as `:umask`, that a start-up file sets or calls: where a trace shows the line, the
    finding names that, and its `hint` stands only where none does.
    """

    error: str = ""
    warning: str = ""
    note: str = ""
    where: str = ""
    expected: str = ""
    hint: Steps = Steps()
    cause: str = ""

    @property
    def severity(self) -> Severity:
        return "error" if self.error else "warning" if self.warning else "note"

    @property
    def found(self) -> str:
        return self.error or self.warning or self.note


class Fact(Words):
    """One fact: its meaning, under its kind.

    Each of `lines` is a finding. `fields` names the words of a line; the last one takes the rest.
    """

    text: str = ""
    number: str = ""
    flag: str = ""
    lines: str = ""
    fields: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _meaning_alone(cls, value: Any) -> Any:
        """Read `KEY: MEANING` as a text."""
        return {"text": value} if isinstance(value, str) else value


Facts = Mapping[str, Fact]


class CheckTable(FrozenModel):
    """All facts and rows of one check, whose name with underscores is `part`.

    `words` are what its `judge` says for names of the shell text.
    """

    part: str = ""
    node: Facts = Field(default_factory=dict)
    prefix: Facts = Field(default_factory=dict)
    context: Facts = Field(default_factory=dict)
    login: Facts = Field(default_factory=dict)
    reads: tuple[str, ...] = ()
    words: Mapping[str, str] = Field(default_factory=dict)
    rows: Mapping[str, Words] = Field(default_factory=dict)

    @property
    def check(self) -> str:
        """Return the name of the check, as users type it."""
        return self.part.replace("_", "-")


NO_TABLE = CheckTable()


@cache
def read_table(path: Path) -> CheckTable:
    """Return the table in a file; a file that is not there is a table without facts."""
    found: dict[str, Any] = read_yaml(path) if path.exists() else {}
    return CheckTable(part=path.stem, **found)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return a table that comes with envmgr."""
    return parse_yaml(path.read_text(encoding="utf-8"), path, reviewed=False) or {}


ENGINE = read_table(Path(__file__).with_name("engine.yaml"))
"""The facts that every probe reports, for any checks."""


def fields_of(line: str, count: int) -> list[str]:
    """Return exactly `count` fields of a line: the last one has the rest, and a node that reports fewer has empty ones."""
    fields = line.split(" ", count - 1)
    return [*fields, *[""] * (count - len(fields))]


def short(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


_CONVERTED: Mapping[str, Callable[[str], str]] = {
    "q": quote,  # for a shell
    "w": lambda text: ", ".join(text.split()),  # words
    "n": lambda text: short(", ".join(text.split())),  # many words
    "h": lambda text: short(" ".join(text.split()), 600),  # a program's output, on one line, with all its paths
    "c": short,  # cut, where it is long
}


class _Filler(Formatter):
    """Fills in templates, with the conversions of `_CONVERTED`."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return _CONVERTED[conversion](str(value)) if conversion else value


def fill(template: str, values: Mapping[str, object]) -> str:
    """Return a template with its values; a KeyError is a mistake in the table, which a test of all tables finds."""
    return _Filler().vformat(template, (), values)


def hint_by(hints: Mapping[str, str], text: str, **values: object) -> str:
    """Return the first of `hints` whose pattern, its key, is found in a text; empty if none is.

    It is filled in with the pattern's named groups, and `values`.
    """
    found = ((re.search(pattern, text), hint) for pattern, hint in hints.items())
    return next((fill(hint, {**match.groupdict(""), **values}) for match, hint in found if match), "")
