"""The baseline file: the nodes' values of everything that is compared, for version control with git.

A good audit writes it; later audits compare with it.

    values:
      contexts:
        bash-login (alice):
          MODULEPATH:
            c[1-3]: /apps/modulefiles

The levels are check, place, compared thing, and each value with its nodes. They are sorted, so that a change is a line
in a diff.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envmgr.errors import InputError
from envmgr.nodes.sets import expand, fold, read_folded
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.untrusted_files import ANYWHERE, BASELINE, read_file_text
from envmgr.system.yamlfile import dump_yaml, parse_yaml

SCHEMA = "envmgr.baseline/1"
_HEAD = "# What nodes have, by `envmgr audit --save-baseline`; `envmgr audit --baseline FILE` tells what has changed since.\n"
_HINT = "`envmgr audit --save-baseline FILE` writes one"
_ALL = "value"  # the key if only one thing is compared
_LOGIN = "'s login shell"
_WORD = re.compile(r"[A-Za-z0-9_.-]+")
_SHELL = re.compile(r"[a-z-]+ \([a-z_][a-z0-9_.-]*\)")


@dataclass(frozen=True, slots=True, order=True)
class Compared:
    """A compared thing: the check, the place, and the part of it."""

    check: str
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Notebook:
    """Everything that was compared: for each thing its values, and the nodes that have them."""

    pages: dict[Compared, dict[str, list[str]]] = field(default_factory=dict)

    def note(self, compared: Compared, values: Mapping[str, Sequence[str]]) -> None:
        page = self.pages.setdefault(compared, {})
        for value, nodes in values.items():
            page.setdefault(value, []).extend(nodes)


class HowAsked(FrozenModel):
    """The scope of an audit. Other contexts or another user give other things to compare.

    `of_user` are the checks that look at the user's login shell: their facts about folders and modules depend on the
    user.
    """

    nodes: str
    user: str
    shells: tuple[str, ...]
    checks: tuple[str, ...]
    of_user: tuple[str, ...] = ()

    def has(self, compared: Compared, user: str) -> bool:
        """Return whether the audit asked for it.

        A place `CONTEXT (USER)` counts only if that shell was looked at, and one of a login shell only for its user.
        """
        if compared.check not in self.checks:
            return False
        if user != self.user and (
            compared.check in self.of_user or {user, self.user} & set(_WORD.findall(compared.where))
        ):
            return False
        if compared.where.endswith(_LOGIN):
            return compared.where == f"{self.user}{_LOGIN}"
        return compared.where in self.shells if _SHELL.fullmatch(compared.where) else True


class _File(FrozenModel):
    schema_: str
    asked: HowAsked
    values: dict[str, dict[str, dict[str, dict[str, str]]]]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A baseline file that was read. `values` maps compared thing -> node -> value."""

    path: Path
    asked: HowAsked
    values: Mapping[Compared, Mapping[str, str]]

    def right(self, compared: Compared) -> Mapping[str, str] | None:
        """Return node -> the value that it had; None for what was not compared then."""
        return self.values.get(compared)

    def gone(self, notebook: Notebook, asked: HowAsked) -> Iterator[tuple[Compared, str, tuple[str, ...]]]:
        """Yield, with value and nodes, what nodes had and were asked for again, and what can no longer be compared."""
        now = frozenset(expand(asked.nodes))
        for compared, had in self.values.items():
            if compared in notebook.pages or not asked.has(compared, self.asked.user):
                continue
            found: dict[str, list[str]] = {}
            for node, value in had.items():
                if node in now:
                    found.setdefault(value, []).append(node)
            for value, nodes in found.items():
                yield compared, value, tuple(nodes)


def baseline_text(notebook: Notebook, asked: HowAsked) -> str:
    """Return the file's text: the same for the same nodes, byte for byte."""
    values: dict[str, dict[str, dict[str, dict[str, str]]]] = {}
    for compared, page in sorted(notebook.pages.items()):
        if not any(page):
            continue  # not set on any node: a comparison with nothing gives the same result
        place = (
            values.setdefault(compared.check, {}).setdefault(compared.where, {}).setdefault(compared.what or _ALL, {})
        )
        place |= {fold(nodes): value for value, nodes in sorted(page.items(), key=lambda pair: fold(pair[1]))}
    content = {"schema": SCHEMA, "asked": asked.model_dump(mode="json"), "values": values}
    return _HEAD + dump_yaml(content, width=1 << 20, blocks=True)


def read_baseline(path: Path) -> Baseline:
    """Read a baseline. Raises InputError `baseline-unreadable`, or the errors of other YAML files; EnvmgrError
    `format-unknown`.
    """
    # Nodes reported these values, which may contain characters that a reviewed file may not.
    content: Any = parse_yaml(read_file_text(path, BASELINE, tree=ANYWHERE), path, reviewed=False)
    try:
        require_format(content, SCHEMA, path)
        file = _File.model_validate({"schema_": content.pop("schema"), **content})
        values = {
            Compared(check, where, "" if what == _ALL else what): _by_node(page)
            for check, places in file.values.items()
            for where, things in places.items()
            for what, page in things.items()
        }
    except ValueError as error:
        raise InputError("baseline-unreadable", f"{path} is no baseline", context=_wrong(error), hint=_HINT) from None
    except InputError as error:
        raise InputError("baseline-unreadable", f"{path} is no baseline", context=error.message, hint=_HINT) from None
    return Baseline(path, file.asked, values)


def _wrong(error: ValueError) -> list[str]:
    """Return the invalid fields and the reasons."""
    if isinstance(error, ValidationError):
        return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:4]]
    return str(error).splitlines()[:4]


def _by_node(page: Mapping[str, str]) -> dict[str, str]:
    return {node: value for nodes, value in page.items() for node in read_folded(nodes)}
