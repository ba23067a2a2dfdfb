"""A check as a function of one look: one answer, and the nodes that gave it. What several looks say alike is one finding."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from envmgr.audit.model import AskedShell, Evidence, Rows
from envmgr.probe.model import Facts, Fleet

Place = Literal["node", "prefix", "login", "shells"]
"""Whose answers are looked at: of all nodes, of those whose prefix answers, of login shells, or of each shell."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one look says: a row of the check's table, and the words that fill it in, as for `Evidence.say`.

    A word that is a function is one of the nodes. With a `value`, like nodes should have it in common: the words are
    those of `Evidence.compared`.
    """

    row: str
    words: Mapping[str, Any]
    value: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Return what two looks must share to be one finding, or one comparison."""
        return self.row, *((name, word) for name, word in self.words.items() if not callable(word))


def say(row: str, **words: Any) -> Said:
    return Said(row, words)


def alike(row: str, value: str, **words: Any) -> Said:
    return Said(row, words, value)


@dataclass(frozen=True, slots=True)
class Look:
    """One answer and its nodes. In a shell, facts are named without the shell's own key."""

    evidence: Evidence
    facts: Facts
    nodes: tuple[str, ...]
    shell: AskedShell | None = None

    @property
    def user(self) -> str:
        return self.shell.user if self.shell is not None else self.evidence.plan.user

    def get(self, fact: str, default: str = "") -> str:
        return self.facts.get(f"{self.shell.key if self.shell else ''}{fact}", default)

    def has(self, fact: str) -> bool:
        return f"{self.shell.key if self.shell else ''}{fact}" in self.facts

    def lines(self, fact: str) -> list[str]:
        return self.get(fact).splitlines()

    def named(self, beginning: str) -> dict[str, str]:
        """Return what follows in the facts that begin so -> the fact."""
        found = {key: value for key, value in self.facts.items() if key.startswith(beginning)}
        return {key.removeprefix(beginning): found[key] for key in sorted(found)}


JudgeOne = Callable[[Look], Iterable[Said]]


def each_answer(one: JudgeOne, of: Place) -> Callable[[Evidence], Rows]:
    """Return the `judge` of a check that looks at one answer at a time."""

    def judge(evidence: Evidence) -> Rows:
        if of == "shells":
            for shell in evidence.each_shell():
                yield from looked_at(one, shell.fleet, evidence, shell)
        else:
            fleet = {"node": evidence.fleet, "prefix": evidence.fleet.sound, "login": evidence.shells}[of]
            yield from looked_at(one, fleet, evidence)

    return judge


def looked_at(
    one: JudgeOne,
    fleet: Fleet,
    evidence: Evidence,
    shell: AskedShell | None = None,
    *,
    apart: Collection[str] = frozenset(),
) -> Rows:
    """Yield what is said of the answers of a fleet; no look has nodes of `apart` and others."""
    parts = ((group.facts, _only(group.nodes, apart, is_in)) for group in fleet.groups for is_in in (False, True))
    looks = (Look(evidence, facts, nodes, shell) for facts, nodes in parts if nodes)
    return folded(((said, look.nodes) for look in looks for said in one(look)), evidence, shell)


def _only(nodes: tuple[str, ...], apart: Collection[str], is_in: bool) -> tuple[str, ...]:
    return tuple(node for node in nodes if (node in apart) == is_in)


def folded(all_said: Iterable[tuple[Said, Sequence[str]]], evidence: Evidence, shell: AskedShell | None = None) -> Rows:
    """Yield each thing that is said once, with all nodes of which it is said.

    Without a shell, a row with a `cause` is about the login shell: a line of its start-up files is asked for.
    """
    found: dict[tuple[object, ...], list[tuple[Said, Sequence[str]]]] = {}
    for said, nodes in all_said:
        found.setdefault(said.key, []).append((said, nodes))
    for of in found.values():
        first = of[0][0]
        at = shell or (evidence.user_login if evidence.table.rows[first.row].cause else None)
        if first.value is None:
            nodes = [node for _, of_look in of for node in of_look]
            words = {name: word(nodes) if callable(word) else word for name, word in first.words.items()}
            yield evidence.say(first.row, nodes, at, **words)
        else:
            yield evidence.compared(first.row, dict(_values(of)), at, **first.words)


def _values(of: Sequence[tuple[Said, Sequence[str]]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each value with its nodes, the commonest first."""
    found: dict[str, list[str]] = {}
    for said, nodes in of:
        found.setdefault(said.value or "", []).extend(nodes)
    for value in sorted(found, key=lambda value: (-len(found[value]), value)):
        yield value, tuple(found[value])
