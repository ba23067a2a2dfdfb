"""Versions: how they compare, and how people expect them to be sorted."""

from __future__ import annotations

import re
from itertools import zip_longest

from packaging.version import InvalidVersion, Version

_MOST_DIGITS = 18


def older(a: str, b: str) -> bool:
    """Return whether version `a` is older than `b`: by number, component by component; a missing component counts
    as 0.
    """
    pairs = zip_longest(numbers(a), numbers(b), fillvalue=0)
    return next((x < y for x, y in pairs if x != y), False)


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version. One with more digits than any version has counts as the largest possible."""
    return tuple(int(part[:_MOST_DIGITS]) for part in version.split(".") if part.isdecimal())


def sort_key(version: str) -> tuple[int, Version | str]:
    """Return a key that sorts versions as people expect (2.9 before 2.10).

    Versions that do not follow PEP 440 come first, by text.
    """
    try:
        return (1, Version(re.sub(r"-", "+", version, count=1)))
    except InvalidVersion:
        return (0, version)
