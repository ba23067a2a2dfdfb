"""Versions of digits and dots, by number."""

from __future__ import annotations

from itertools import zip_longest

_MOST_DIGITS = 18


def older(a: str, b: str) -> bool:
    """Whether version `a` is older than `b`: by number, component by component; a missing one counts as 0."""
    pairs = zip_longest(numbers(a), numbers(b), fillvalue=0)
    return next((x < y for x, y in pairs if x != y), False)


def numbers(version: str) -> tuple[int, ...]:
    """Those of its components; one of more digits than any version has counts as the most that can be."""
    return tuple(int(part[:_MOST_DIGITS]) for part in version.split(".") if part.isdecimal())
