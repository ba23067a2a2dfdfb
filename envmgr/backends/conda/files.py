"""Whether the files of a conda lock need what the lock says: asked of the `index.json` of each, downloaded and hashed, before any is unpacked.

Names are compared and no versions: channels patch those in their listing, and rightly so. Runs in the rattler worker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from envmgr.backends.conda.input import read_row
from envmgr.catalog.lock_rules import closure_of

ALWAYS = {"python": ("pip",)}
"""What a package may bring that no record says: conda gives every Python a pip. Source: conda, `add_pip_as_python_dependency`."""


class FilesDiffer(Exception):  # noqa: N818 - what is the matter
    """The files need others than the lock has. `details` has `lines`."""

    def __init__(self, lines: Collection[str]) -> None:
        super().__init__("; ".join(lines))
        self.details = {"lines": [*lines]}


def require_answer(archives: Mapping[str, Path], request: Mapping[str, Any]) -> None:
    """`archives` maps each package to its file; `request` has its `records`, the recipe's `specs` and `virtual` packages, and the names that
    it `accepts`. Raises FilesDiffer.
    """
    import rattler

    depends: dict[str, tuple[str, ...]] = {}
    lines = []
    for record in request["records"]:
        index = rattler.package.IndexJson.from_package_archive(archives[record["name"]])
        found = (index.name.normalized, str(index.version), str(index.build), index.subdir or record["subdir"])
        if found != (record["name"].lower(), record["version"], record["build"], record["subdir"]):
            lines.append(
                f"{record['file']} is {' '.join(found[:3])} for {found[3]}, the lock says {_shown(record)} for "
                f"{record['subdir']}"
            )
        depends[record["name"].lower()] = tuple(index.depends)
    lines += _differences(depends, request)
    if lines:
        raise FilesDiffer(lines)


def _differences(depends: Mapping[str, tuple[str, ...]], request: Mapping[str, Any]) -> Iterator[str]:
    accepts = {*request["accepts"]}
    shown = {record["name"].lower(): _shown(record) for record in request["records"]}
    needed = needed_names([*request["specs"], *(name for name in accepts if name in depends)], depends)
    known = {*depends, *request["virtual"], *accepts}
    for name in sorted(needed - known):
        by = [shown[each] for each, rows in depends.items() if name in map(_name, rows)]
        if by and not name.startswith("__conda"):
            yield f"{by[0]} needs {name}, which the lock lacks"
    for name in sorted(depends.keys() - needed):
        yield f"{shown[name]} is in the lock, and no file of it needs that"


def needed_names(specs: Collection[str], depends: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The names that the recipe asks for, and those that packages (name -> rows) need then."""

    def needs(name: str) -> list[str]:
        return [found for found in (*map(_name, depends.get(name, ())), *ALWAYS.get(name, ())) if found]

    found = closure_of([_name(spec) for spec in specs], needs)
    return found - {name for names in ALWAYS.values() for name in names if name not in depends}


def _name(row: str) -> str:
    return read_row(row).name


def _shown(record: Mapping[str, Any]) -> str:
    return f"{record['name']} {record['version']} {record['build']}"
