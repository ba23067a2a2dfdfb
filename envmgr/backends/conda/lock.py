"""The lock as data: the exact packages that a recipe resolved to, and the rows that say what they need.

lockfile.py reads and writes its files. The workers read this module: it imports neither pydantic nor anything else that
takes long to load.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from envmgr.catalog.lock_checks import closure_of

if TYPE_CHECKING:
    from envmgr.wheels.lockfile import LockedWheels

PYTHON = "python"  # the package that brings `bin/python`, also for PyPy in conda-forge

# A conda package is three to four times as large unpacked (measured with the stand-ins and torch's wheels).
UNPACKED = 4


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """One conda package. `size` is in bytes and `timestamp` in milliseconds since the epoch, where the channel gives
    them.
    """

    name: str
    version: str
    build: str
    url: str
    md5: str
    sha256: str
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    size: int | None = None
    timestamp: int | None = None
    license: str | None = None
    python_site_packages_path: str | None = None

    @property
    def file_name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def subdir(self) -> str:
        return self.url.rsplit("/", 2)[1]

    @property
    def channel(self) -> str:
        """Return the channel's URL, two levels above the file."""
        return self.url.rsplit("/", 2)[0]

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not empty."""
        return {key: value for key, value in asdict(self).items() if value not in (None, ())}


def is_sha256(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{64}", text) is not None


@dataclass(frozen=True, slots=True)
class ChannelSource:
    """A channel. `snapshot` is set if its records came from a folder that has no packages: subdir -> sha256 of its
    repodata.json. `note` is the site's note on it. Paths and hosts of the machine are not kept.
    """

    name: str
    url: str
    snapshot: Mapping[str, str] | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class CondaLock:
    """A solved environment for one platform, packages sorted by name. `added` are the wheels beside them; `edited` says
    that its text is another than the one that was written.
    """

    platform: str
    recipe_digest: str
    packages: tuple[LockedPackage, ...]
    channels: tuple[ChannelSource, ...]
    added: LockedWheels | None = None
    edited: bool = False

    @property
    def versions(self) -> dict[str, str]:
        return {p.name: p.version for p in self.packages}

    def identity(self) -> object:
        """Return what decides an install's bytes: content hashes, and the URLs and needs that conda-meta records."""
        packages = [[p.url, p.sha256, *p.depends] for p in self.packages]
        if self.added is None or not self.added.rows:  # conda's packages are all that `pip` asks for
            return packages
        return {"packages": packages, "wheels": self.added.identity()}

    def describe(self) -> dict[str, str]:
        """Return name -> `version build`; for a wheel, its version and the first digits of its sha256.

        A wheel with the name of a conda package is listed as `name (pip)`.
        """
        found = {p.name: f"{p.version} {p.build}" for p in self.packages}
        wheels = {} if self.added is None else self.added.describe()
        return found | {f"{name} (pip)" if name in found else name: text for name, text in wheels.items()}


_ROW = re.compile(r"\s*([A-Za-z0-9_.-]+)(.*)", re.DOTALL)
ALWAYS = {"python": ("pip",)}
"""Needs that no record lists: conda gives every Python a pip. Source: conda, `add_pip_as_python_dependency`."""


def row_parts(row: str) -> tuple[str, str, str]:
    """Return name, version and build of a plain row of needs, as channels write it: `numpy>=1.2` and `numpy >=1.2, <3`
    occur, too. Only rattler reads conditions, extras and flags: its worker writes what holds of them as plain rows.
    """
    row = " ".join(row.split())  # a long row of spaces takes the square of its length below
    match = _ROW.match(row)
    name, rest = (match[1], match[2].strip()) if match else (row, "")
    rest = re.sub(r"\s*([,|])\s*", r"\1", rest)
    version, _, build = re.sub(r"(?<=[<>=!~])\s+", "", rest).partition(" ")
    return name, version, build.strip()


def name_of(row: str) -> str:
    """Return the name of the package that a row of needs, or a spec, asks for."""
    match = _ROW.match(row)
    return (match[1] if match else row.strip()).lower()


def needed_names(specs: Collection[str], depends: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the names that the recipe asks for, and those that packages (name -> rows) then need."""

    def needs(name: str) -> list[str]:
        rows = (*depends.get(name, ()), *ALWAYS.get(name, ()))
        return [name_of(row) for row in rows]

    found = closure_of([name_of(spec) for spec in specs], needs)
    return found - {name for names in ALWAYS.values() for name in names if name not in depends}
