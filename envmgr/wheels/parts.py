"""Wheels, and sources that become wheels, as parts of an install."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from envmgr.store.parts import PYPI, Part, same_name
from envmgr.wheels.locked import LockedFile


@lru_cache(1 << 16)  # entries have the same packages, and 1,000 of them a million rows
def _need(row: str, python: str, platform: str) -> str:
    """Return the name that a row of Requires-Dist asks for there, without extras; empty if it asks for none."""
    from packaging.requirements import InvalidRequirement, Requirement  # slow to import

    from envmgr.wheels.target import marker_holds

    try:
        read = Requirement(row)
    except InvalidRequirement:  # an index's own text: the lock's check has reported it
        return ""
    return same_name(PYPI, read.name) if marker_holds(read.marker, python, platform) else ""


def wheel_parts(files: Iterable[LockedFile], python: str, platform: str) -> Iterator[Part]:
    """Yield the parts, as they are installed for that Python and platform."""
    for each in files:
        needs = (_need(row, python, platform) for row in each.requires or ())
        yield Part(
            ecosystem=PYPI,
            name=each.name,
            version=each.version,
            key=same_name(PYPI, each.name),
            needs=tuple(dict.fromkeys(filter(None, needs))),
            sha256=each.sha256,
            purl="pypi",
            qualifiers={"file_name": each.file},
        )
