"""A check as a function of one look: one answer, and the nodes that gave it. What several looks say alike is one finding."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envmgr.audit.model import AskedShell, Evidence, Rows
from envmgr.probe.model import Facts, Fleet, grouped


@dataclass(frozen=True, slots=True)
class Said:
    """A row of the check's table, and the words that fill it in, as for `Evidence.say`: what one look says.

    A word that is a function is one of the nodes.
    """

    row: str
    words: Mapping[str, Any]

    @property
    def key(self) -> tuple[object, ...]:
        """Return what two looks must share to be one finding."""
        return self.row, *((name, word) for name, word in self.words.items() if not callable(word))


SaidOf = tuple[Said, Sequence[str]]
"""What is said, and the nodes of which it is."""


def say(row: str, **words: Any) -> Said:
    return Said(row, words)


@dataclass(frozen=True, slots=True)
class Look:
    """One answer and its nodes. In a shell, facts are named without the shell's own key."""

    evidence: Evidence
    facts: Facts
    nodes: tuple[str, ...]
    shell: AskedShell | None = None

    def get(self, fact: str, default: str = "") -> str:
        return self.facts.get(f"{self.shell.key if self.shell else ''}{fact}", default)

    def has(self, fact: str) -> bool:
        return f"{self.shell.key if self.shell else ''}{fact}" in self.facts

    def lines(self, fact: str) -> list[str]:
        return self.get(fact).splitlines()


JudgeOne = Callable[[Look], Iterable[Said]]


def looked_at(
    one: JudgeOne,
    fleet: Fleet,
    evidence: Evidence,
    shell: AskedShell | None = None,
    *,
    apart: Collection[str] = frozenset(),
) -> Rows:
    """Yield what is said of the answers of a fleet; no look has nodes of `apart` and others."""
    looks = (
        Look(evidence, group.facts, nodes, shell)
        for group in fleet.groups
        for is_in in (False, True)
        if (nodes := tuple(node for node in group.nodes if (node in apart) == is_in))
    )
    return folded(((said, look.nodes) for look in looks for said in one(look)), evidence, shell)


def folded(all_said: Iterable[SaidOf], evidence: Evidence, shell: AskedShell | None = None) -> Rows:
    """Yield each thing that is said once, with all nodes of which it is said.

    Without a shell, a row with a `cause` is about the login shell: a line of its start-up files is asked for.
    """
    for of in grouped((each[0].key, each) for each in all_said).values():
        row, words = of[0][0].row, of[0][0].words
        at = shell or (evidence.user_login if evidence.table.rows[row].cause else None)
        having = [node for _, nodes in of for node in nodes]
        filled = {name: word(having) if callable(word) else word for name, word in words.items()}
        yield evidence.say(row, having, at, **filled)
