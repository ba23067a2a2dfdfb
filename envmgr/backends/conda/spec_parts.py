"""The needs of packages, as repodata and recipes write them: a name, a version, a build string. Versions are not
compared here.

A build checks the files in the same way: the `index.json` of each one, downloaded and hashed, before any is unpacked.
It compares names and no versions, because channels rightly patch versions in their listing.

The workers read this module: it imports neither pydantic nor anything else that takes long to load.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from envmgr.catalog.lock_rules import closure_of

_ROW = re.compile(r"\s*(?:\S+::)?([A-Za-z0-9_][A-Za-z0-9_.-]*)([^;]*)")
_BRACKET = re.compile(r"\[(.*)\]\s*$")
ALWAYS = {"python": ("pip",)}
"""Needs that no record lists: conda gives every Python a pip. Source: conda, `add_pip_as_python_dependency`."""


@dataclass(frozen=True, slots=True)
class SpecParts:
    """One row of needs. `version` and `build` are empty if the row does not limit them.

    `name` is also empty if the row holds only conditionally (`mkl; if …`).
    """

    name: str
    version: str = ""
    build: str = ""


def read_row(text: str) -> SpecParts:
    """Parse `mkl 2023.*`, `mkl>=2023,<2024`, `_openmp_mutex * *_llvm`, `mkl=2023=h1_0`, `mkl[build='*_llvm']`."""
    match = _ROW.fullmatch(text)
    if match is None:
        return SpecParts("")
    rest, build = match[2].strip(), ""
    if bracket := _BRACKET.search(rest):
        build = next(iter(re.findall(r"build\s*=\s*['\"]?([^'\",\]]+)", bracket[1])), "")
        rest = rest[: bracket.start()].strip()
    if exact := re.fullmatch(r"={1,2}([^=<>!~|,\s]+)=([^=\s]+)", rest):
        return SpecParts(match[1].lower(), exact[1], exact[2])
    rest = re.sub(r"(?<=[<>=!~,|])\s+|\s+(?=[,|])", "", rest)
    version, _, own = rest.partition(" ")
    if inner := re.fullmatch(r"([^=<>!~|,]+)=([^=]+)", version):  # `_openmp_mutex 4.5=2_gnu`
        return SpecParts(match[1].lower(), inner[1], inner[2])
    return SpecParts(match[1].lower(), version, own.strip() or build)


def is_build(found: str, wanted: str) -> bool:
    """Compare build strings as conda does: `*` is any text, and `^…$` is a regular expression."""
    if wanted.startswith("^") and wanted.endswith("$"):
        try:
            return re.fullmatch(wanted[1:-1], found) is not None
        except re.error:
            return True  # an unreadable build string contradicts nothing
    return any(fnmatchcase(found, each) for each in wanted.split("|"))


def needed_names(specs: Collection[str], depends: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the names that the recipe asks for, and those that packages (name -> rows) then need."""

    def needs(name: str) -> list[str]:
        return [found for found in (*map(_name, depends.get(name, ())), *ALWAYS.get(name, ())) if found]

    found = closure_of([_name(spec) for spec in specs], needs)
    return found - {name for names in ALWAYS.values() for name in names if name not in depends}


def _name(row: str) -> str:
    return read_row(row).name


class FilesDiffer(Exception):  # noqa: N818 - the name states the fault
    """The files have other needs than the lock. `details` has `lines`."""

    def __init__(self, lines: Collection[str]) -> None:
        super().__init__("; ".join(lines))
        self.details = {"lines": [*lines]}


def require_answer(archives: Mapping[str, Path], request: Mapping[str, Any]) -> None:
    """Require that the package files have the needs that the lock has. Raises FilesDiffer.

    `archives` maps each package to its file. `request` has its `records`, the recipe's `specs` and `virtual` packages,
    and the names that it `accepts`.
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


def _shown(record: Mapping[str, Any]) -> str:
    return f"{record['name']} {record['version']} {record['build']}"
