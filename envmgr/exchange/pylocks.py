"""pylock.toml as a file of exact packages. Source: packaging.python.org, "pylock.toml Specification"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envmgr.exchange import Dropped, ReadFile
from envmgr.exchange.checks import NO_INDEX, row_of

if TYPE_CHECKING:
    from packaging.pylock import Pylock

_OF_PARTS = re.compile(r"\b(extras|dependency_groups)\b")


def rows_of(given: ReadFile, lock: Pylock) -> tuple[tuple[str, ...], list[Dropped]]:
    """Return a row for each package, and the packages that no row can ask for."""
    rows, left, groups = list[str](), list[Dropped](), {*(lock.default_groups or ())}
    for package in lock.packages:
        marker = package.marker
        if marker is not None and _OF_PARTS.search(str(marker)):  # no requirement can say it
            if not marker.evaluate({"extras": set(), "dependency_groups": groups}, context="lock_file"):
                left.append(given.left(f'name = "{package.name}"', "it belongs to an extra or a group of dependencies"))
                continue
            marker = None
        row = f"{package.name}=={package.version}{f' ; {marker}' if marker is not None else ''}"
        why = NO_INDEX if package.version is None or package.is_direct else ""
        found = row_of(given, row, f'name = "{package.name}"', why)
        if isinstance(found, str):
            rows.append(found)
        else:
            left.append(found)
    for what, names in (("extras", lock.extras), ("dependency-groups", {*(lock.dependency_groups or ())} - groups)):
        left += [
            given.left(what, f"only what `{name}` does not ask for is carried over") for name in sorted(names or ())
        ]
    return tuple(rows), left
