"""Harms: what users of a node do not get, or get otherwise than published, one node at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envmgr.audit.grouping import AuditFinding, Loose
from envmgr.probe.model import CONTEXTS, ShellAccount, ShellContext

# What comes first in the life of a shell: what is wrong later follows from what is wrong before.
_LIFE = tuple("slurm nodes ssh mount generation contexts lmod modulefiles loading resolution software".split())
_OF_LOGIN = _LIFE[_LIFE.index("contexts") + 1 :]  # asked in the user's login shell
_PATH = re.compile(r"(?<![\w.])/[\w.+@-]+(?:/[\w.+@-]+)*")
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b")
_PLACE = re.compile(r"(/[\w.+/@-]+):(?: line )?(\d+)\b")
_BY_NAME = {context.name: context for context in CONTEXTS}


@dataclass(frozen=True, slots=True)
class Harm:
    """A finding on one of its nodes, in one shell; `context` is None for what is about no shell. `alike`: all nodes that were
    asked have the same one.
    """

    finding: AuditFinding
    node: str
    context: ShellContext | None
    account: ShellAccount
    alike: bool

    @property
    def text(self) -> str:
        return f"{self.finding.where}: {self.finding.found}"

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths that it names, the most exact first."""
        return tuple(sorted({*_PATH.findall(self.text)}, key=len, reverse=True))

    @property
    def names(self) -> frozenset[str]:
        """Return the variables that it names."""
        return frozenset(_VARIABLE.findall(self.text))

    @property
    def line(self) -> str:
        """Return the FILE:LINE that it names itself, as shells do; empty for none."""
        found = _PLACE.search(self.finding.found)
        return f"{found[1]}:{found[2]}" if found else ""

    @property
    def stage(self) -> int:
        """Return how early in the life of a shell it is."""
        check = self.finding.check
        return _LIFE.index(check) if check in _LIFE else len(_LIFE)


def harms_of(loose: Iterable[Loose], nodes: frozenset[str]) -> Iterator[Harm]:
    """Yield each finding that is no note on each of its nodes, and in each of its shells. `nodes` are those that were asked."""
    for one in loose:
        if one.finding.severity == "note":
            continue
        shells = re.match(r"([a-z, -]+) \(", one.finding.where)
        names = shells[1].split(", ") if shells else []
        contexts: list[ShellContext | None] = [_BY_NAME[name] for name in names if name in _BY_NAME]
        if not contexts and one.finding.check in _OF_LOGIN:
            contexts = [CONTEXTS[0]]
        there = sorted(one.nodes) or [""]
        alike = not one.finding.between and nodes <= one.nodes and len(nodes) > 1
        for node in there:
            for context in contexts or [None]:
                yield Harm(one.finding, node, context, "root" if one.account == "root" else "user", alike)
