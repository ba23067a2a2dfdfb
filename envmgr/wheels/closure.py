"""Whether wheels are what requirements ask for: by what the lock says that each needs, or by the METADATA of their files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envmgr.catalog.lockrules.closure import reached, unanswered, unneeded
from envmgr.catalog.lockrules.judge import Fault
from envmgr.wheels.requirements import MOST_ROWS, Question, read_requirement
from envmgr.wheels.target import target_environment

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]{0,200})")
_Node = tuple[str, str]
"""A package and one of its extras; the extra is empty for what it needs anyway."""


@dataclass(frozen=True, slots=True)
class Part:
    """A distribution of an environment: its rows of Requires-Dist; None where nobody says them."""

    version: str
    requires: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class _Need:
    """One row: `read` is None for a row that only old tools read, of which the name alone is known."""

    name: str
    read: Requirement | None

    @property
    def nodes(self) -> list[_Node]:
        extras = [] if self.read is None else sorted(self.read.extras)
        return [(self.name, ""), *((self.name, str(canonicalize_name(extra))) for extra in extras)]


@dataclass(slots=True)
class _Closure:
    parts: Mapping[str, Part]
    present: Mapping[str, str]
    elsewhere: bool
    environment: Mapping[str, str]
    read: dict[str, list[_Need]] = field(default_factory=dict)

    def needs(self, node: _Node) -> list[_Need]:
        """Those that count for the platform, with the extra of the node."""
        name, extra = node
        if name not in self.read:
            part = self.parts.get(name)
            self.read[name] = [*_needs(() if part is None else part.requires or ())]
        return [each for each in self.read[name] if self.counts(each, extra)]

    def counts(self, need: _Need, extra: str = "") -> bool:
        marker = None if need.read is None else need.read.marker
        return marker is None or marker.evaluate({**self.environment, "extra": extra})

    def reached_from(self, roots: Sequence[_Need]) -> set[_Node]:
        return reached(
            [node for need in roots for node in need.nodes],
            lambda node: [each for need in self.needs(node) for each in need.nodes],
        )

    def fault(self, need: _Need, by: str) -> Fault | None:
        if need.read is None:
            return None
        part = self.parts.get(need.name)
        version = self.present.get(need.name) if part is None else part.version
        if version is None:
            return None if self.elsewhere else unanswered(str(need.read), "", by)
        with suppress(InvalidVersion):  # of a package of conda's: it says nothing for or against it
            if not need.read.specifier.contains(Version(version), prereleases=True):
                return unanswered(str(need.read), f"{need.name} {version}", by)
        return None


def faults_of(
    wanted: Question,
    parts: Mapping[str, Part],
    python: str,
    *,
    present: Mapping[str, str] | None = None,
    elsewhere: bool = False,
    asker: str = "the recipe",
) -> Iterator[Fault]:
    """Where `parts` (normalised name -> it) are not what `wanted` asks for, for a Python of the version `python`.

    `present` (name -> version) is there besides them, and needs nothing; `elsewhere`: what is missing may be there, too. Where it is not known
    what a part needs, one that nothing else needs may be its. `asker` is whose requirements they are.
    """
    closure = _closure(wanted, parts, python, present or {}, elsewhere=elsewhere)
    roots = [need for need in _needs(wanted.requirements) if closure.counts(need)]
    limits = [need for need in _needs(wanted.constraints) if closure.counts(need) and need.name in parts]
    for need, by in ((need, by) for needs, by in ((roots, asker), (limits, "a constraint")) for need in needs):
        if fault := closure.fault(need, by):
            yield fault
    nodes = closure.reached_from(roots)
    told: set[str] = set()
    for name, extra in sorted(nodes):
        by = f"{name} {parts[name].version}" if name in parts else name
        for need in closure.needs((name, extra)):
            if (fault := closure.fault(need, by)) and fault.text not in told:
                told.add(fault.text)
                yield fault
    names = {name for name, _ in nodes}
    if not any(parts[name].requires is None for name in names if name in parts):
        yield from unneeded(((name, f"{name} {part.version}") for name, part in sorted(parts.items())), names, asker)


def needed_of(wanted: Question, parts: Mapping[str, Part], python: str) -> set[str]:
    """The names that `wanted` asks for, and those that these need."""
    closure = _closure(wanted, parts, python, {}, elsewhere=False)
    return {name for name, _ in closure.reached_from([n for n in _needs(wanted.requirements) if closure.counts(n)])}


def _closure(
    wanted: Question, parts: Mapping[str, Part], python: str, present: Mapping[str, str], *, elsewhere: bool
) -> _Closure:
    environment = cast("dict[str, str]", target_environment(python, wanted.platform))
    return _Closure(parts, present, elsewhere, environment)


def _needs(rows: Sequence[str]) -> Iterator[_Need]:
    for row in rows[:MOST_ROWS]:
        try:
            read = read_requirement(row)
            yield _Need(canonicalize_name(read.name), read)
        except ValueError:
            if name := _NAME.match(row):
                yield _Need(canonicalize_name(name[1]), None)
