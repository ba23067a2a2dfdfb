"""Wheels, and sources that become wheels, as parts of an install."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envmgr.store.parts import PYPI, Part
from envmgr.wheels.lockfile import LockedRow


def wheel_parts(rows: Iterable[LockedRow]) -> Iterator[Part]:
    """Yield the parts. What each needs only its install says: see `store.dist_info`."""
    for row in rows:
        yield Part(ecosystem=PYPI, name=row.name, version=row.version, key=row.name, sha256=row.sha256, purl="pypi")
