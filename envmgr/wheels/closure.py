"""Are wheels what requirements ask for? By the rows of Requires-Dist that a lock, or the METADATA of files, has of
each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envmgr.catalog.lock_rules import UNANSWERED, LockFault, closure_of, unanswered, unneeded
from envmgr.wheels.locked import Distribution
from envmgr.wheels.requirements import MOST_ROWS, Question, read_requirement
from envmgr.wheels.target import target_environment

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]{0,200})")
_MOST_STEPS = 2_000_000  # some seconds; the longest locks that people make take a quarter of it
_Node = tuple[str, str]
"""A package and one of its extras; the extra is empty for what it needs in any case."""


@dataclass(frozen=True, slots=True)
class _Need:
    """One row.

    `read` is None for a row that only old tools read: only its name is known. `cost` is that of a look, in steps.
    """

    name: str
    read: Requirement | None
    cost: int

    @property
    def nodes(self) -> list[_Node]:
        extras = [] if self.read is None else sorted(self.read.extras)
        return [(self.name, ""), *((self.name, str(canonicalize_name(extra))) for extra in extras)]

    @property
    def asks_extra(self) -> bool:
        return self.read is not None and "extra" in str(self.read.marker or "")


class _TooMuch(Exception):  # noqa: N818 - the name of what happened
    """The needs take more steps to follow than anything that people make; its text is the package that is looked at."""


@dataclass(slots=True)
class _Closure:
    """The needs of `parts`, followed from roots.

    `held` are the rows of a package that count, by their place; `open` are those that might count for another extra.
    """

    parts: Mapping[str, Distribution]
    present: Mapping[str, str]
    elsewhere: bool
    environment: Mapping[str, str]
    held: dict[str, dict[int, _Need]] = field(default_factory=dict)
    open: dict[str, dict[int, _Need]] = field(default_factory=dict)
    steps: int = 0

    def follow(self, node: _Node) -> list[_Node]:
        """Return the nodes of the rows that count for the node, and did not count before. Raise _TooMuch."""
        name, extra = node
        if name not in self.open:
            self.open[name], self.held[name] = dict(enumerate(self._rows(name))), {}
        rows = self.open[name]
        self._step(name, sum(need.cost for need in rows.values()))
        fresh = {place: need for place, need in rows.items() if self.counts(need, extra)}
        self.held[name] |= fresh
        self.open[name] = {place: need for place, need in rows.items() if place not in fresh and need.asks_extra}
        self._step(name, sum(len(need.nodes) for need in fresh.values()))
        return [each for need in fresh.values() for each in need.nodes]

    def counts(self, need: _Need, extra: str = "") -> bool:
        marker = None if need.read is None else need.read.marker
        return marker is None or marker.evaluate({**self.environment, "extra": extra})

    def counting(self, rows: Sequence[str]) -> list[_Need]:
        return [need for need in _needs(rows) if self.counts(need)]

    def _rows(self, name: str) -> list[_Need]:
        part = self.parts.get(name)
        rows = () if part is None else part.requires or ()
        if len(rows) > MOST_ROWS:
            raise _TooMuch(name)
        self._step(name, sum(10 + len(row) // 3 for row in rows))  # to read one takes far longer than to look at it
        return [*_needs(rows)]

    def _step(self, name: str, count: int) -> None:
        self.steps += count
        if self.steps > _MOST_STEPS:
            raise _TooMuch(name)

    def names(self, roots: Sequence[_Need]) -> set[str]:
        """Return the names that the roots ask for, and those that these need. Raise _TooMuch."""
        return {name for name, _ in closure_of([node for need in roots for node in need.nodes], self.follow)}

    def fault(self, need: _Need, by: str) -> LockFault | None:
        if need.read is None:
            return None
        part = self.parts.get(need.name)
        version = self.present.get(need.name) if part is None else part.version
        if version is None:
            return None if self.elsewhere else unanswered(str(need.read), "", by)
        with suppress(InvalidVersion):  # the version of a conda package may be none: it says nothing for or against it
            if not need.read.specifier.contains(Version(version), prereleases=True):
                return unanswered(str(need.read), f"{need.name} {version}", by)
        return None


def closure_faults(
    wanted: Question,
    parts: Mapping[str, Distribution],
    python: str,
    *,
    present: Mapping[str, str] | None = None,
    elsewhere: bool = False,
    asker: str = "the recipe",
) -> Iterator[LockFault]:
    """Yield where `parts` (by normalised name) are not what `wanted` asks for, for a Python of the version `python`.

    `present` (name -> version) is there as well, and needs nothing. With `elsewhere`, what is missing may be there.
    If the needs of one part are unknown, a part that nothing else needs may be needed by it. `asker` is whose
    requirements they are.
    """
    try:
        yield from _faults(wanted, _closure(wanted, parts, python, present or {}, elsewhere=elsewhere), asker)
    except _TooMuch as error:
        yield LockFault(
            UNANSWERED,
            f"what {error} needs takes too long to follow: no package has so many rows and extras",
            "ask who wrote this lock or this package; another version of the package may do",
        )


def _faults(wanted: Question, closure: _Closure, asker: str) -> Iterator[LockFault]:
    """Raise _TooMuch."""
    parts = closure.parts
    roots = closure.counting(wanted.requirements)
    limits = [need for need in closure.counting(wanted.constraints) if need.name in parts]
    for need, by in (*((need, asker) for need in roots), *((need, "a constraint") for need in limits)):
        if fault := closure.fault(need, by):
            yield fault
    names = closure.names(roots)
    said: set[str] = set()
    for name in sorted(names):
        by = f"{name} {parts[name].version}" if name in parts else name
        for _, need in sorted(closure.held[name].items()):
            if (fault := closure.fault(need, by)) and fault.text not in said:
                said.add(fault.text)
                yield fault
    if not any(parts[name].requires is None for name in names if name in parts):
        yield from unneeded(((name, f"{name} {part.version}") for name, part in sorted(parts.items())), names, asker)


def needed_of(wanted: Question, parts: Mapping[str, Distribution], python: str) -> set[str]:
    """Return the names that `wanted` asks for, and those that these need.

    These are all `parts` if they take too long to follow; `closure_faults` says so.
    """
    closure = _closure(wanted, parts, python, {}, elsewhere=False)
    try:
        return closure.names(closure.counting(wanted.requirements))
    except _TooMuch:
        return {*parts}


def _closure(
    wanted: Question, parts: Mapping[str, Distribution], python: str, present: Mapping[str, str], *, elsewhere: bool
) -> _Closure:
    environment = cast("dict[str, str]", target_environment(python, wanted.platform))
    return _Closure(parts, present, elsewhere, environment)


def _needs(rows: Sequence[str]) -> Iterator[_Need]:
    for row in rows:
        try:
            read = read_requirement(row)
            yield _Need(canonicalize_name(read.name), read, 1 + len(row) // 20)  # in steps of some microseconds
        except ValueError:
            if name := _NAME.match(row):
                yield _Need(canonicalize_name(name[1]), None, 1)
