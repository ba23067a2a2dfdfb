"""pylock.toml as a file of exact packages. Source: packaging.python.org, "pylock.toml Specification"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envmgr.exchange import Given, Left
from envmgr.exchange.checks import NO_INDEX, row_of
from envmgr.wheels.requirements import HashedRow

if TYPE_CHECKING:
    from packaging.markers import Marker
    from packaging.pylock import Package, Pylock

_OF_PARTS = re.compile(r"\b(extras|dependency_groups)\b")


def rows_of(given: Given, lock: Pylock) -> tuple[tuple[HashedRow, ...], list[Left]]:
    """Return a row with the sums of all files for each package, and the packages that no row can ask for."""
    rows, left, groups = list[HashedRow](), list[Left](), {*(lock.default_groups or ())}
    for package in lock.packages:
        marker = package.marker
        if marker is not None and _OF_PARTS.search(str(marker)):  # no requirement can say it
            if not marker.evaluate({"extras": set(), "dependency_groups": groups}, context="lock_file"):
                left.append(given.left(f'name = "{package.name}"', "it belongs to an extra or a group of dependencies"))
                continue
            marker = None
        found = row_of(*_asked(package, marker)) if package.version and not package.is_direct else NO_INDEX
        if isinstance(found, HashedRow):
            rows.append(found)
            continue
        left.append(given.left(f'name = "{package.name}"', found))
    for what, names in (("extras", lock.extras), ("dependency-groups", {*(lock.dependency_groups or ())} - groups)):
        left += [
            given.left(what, f"only what `{name}` does not ask for is carried over") for name in sorted(names or ())
        ]
    return tuple(rows), left


def _asked(package: Package, marker: Marker | None) -> tuple[str, list[str]]:
    said = f" ; {marker}" if marker is not None else ""
    hashes = [each.hashes for each in package.wheels or ()] + ([package.sdist.hashes] if package.sdist else [])
    sums = [each["sha256"] for each in hashes if "sha256" in each]
    return f"{package.name}=={package.version}{said}", sums if len(sums) == len(hashes) else []
