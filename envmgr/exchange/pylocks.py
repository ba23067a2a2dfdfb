"""pylock.toml as a file of exact packages. Source: packaging.python.org, "pylock.toml Specification"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envmgr.exchange import Given, Left
from envmgr.exchange.checks import row_of
from envmgr.wheels.requirements import HashedRow

if TYPE_CHECKING:
    from packaging.pylock import Package, Pylock


def rows_of(given: Given, lock: Pylock) -> tuple[tuple[HashedRow, ...], list[Left]]:
    """Return a row with the sums of all files for each package, and the packages that no row can ask for."""
    rows, left = list[HashedRow](), list[Left]()
    for package in lock.packages:
        found = row_of(*_asked(package)) if package.version and not package.is_direct else "it comes from no index"
        if isinstance(found, HashedRow):
            rows.append(found)
            continue
        if package.marker is not None and "in " in str(package.marker):
            found = "it belongs to an extra or a group of dependencies"
        left.append(given.left(f'name = "{package.name}"', found))
    for what, names in (("extras", lock.extras), ("dependency-groups", lock.dependency_groups)):
        left += [given.left(what, f"only what `{name}` does not ask for is carried over") for name in names or ()]
    return tuple(rows), left


def _asked(package: Package) -> tuple[str, list[str]]:
    marker = f" ; {package.marker}" if package.marker is not None else ""
    hashes = [each.hashes for each in package.wheels or ()] + ([package.sdist.hashes] if package.sdist else [])
    sums = [each["sha256"] for each in hashes if "sha256" in each]
    return f"{package.name}=={package.version}{marker}", sums if len(sums) == len(hashes) else []
