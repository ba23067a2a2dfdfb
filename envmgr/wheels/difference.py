"""The wheels that a user has beside those of an entry, on their way into a recipe and a lock of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envmgr.wheels.answers import needed_of
from envmgr.wheels.locked import Distribution, LockedWheel, WheelSet
from envmgr.wheels.requirements import Question


@dataclass(frozen=True, slots=True)
class Difference:
    """The user's `requirements` and `wheels`. `replaced` are packages of the entry of which `wheels` have others."""

    requirements: tuple[str, ...]
    replaced: frozenset[str]
    wheels: WheelSet

    def rows(self, own: Iterable[str]) -> list[str]:
        """Return the requirements of the entry that still hold, and then the user's."""
        return [*dict.fromkeys((*self.without_replaced(own), *self.requirements))]

    def without_replaced(self, own: Iterable[str]) -> list[str]:
        return [row for row in own if canonicalize_name(Requirement(row).name) not in self.replaced]

    def indexes(self, own: Iterable[str]) -> list[str]:
        return [*dict.fromkeys((*own, *(wheel.index for wheel in self.wheels.wheels)))]

    def joined(self, own: Iterable[LockedWheel]) -> tuple[LockedWheel, ...]:
        """Return the wheels of both, sorted by name; the user's wherever both have one."""
        found = {wheel.name: wheel for wheel in (*own, *self.wheels.wheels)}
        return tuple(found[name] for name in sorted(found))


def unasked(wanted: Question, parts: Mapping[str, Distribution], python: str) -> list[str]:
    """Return the parts that a recipe must name, because only an extra of a package elsewhere needs them."""
    return sorted(parts.keys() - needed_of(wanted, parts, python))
