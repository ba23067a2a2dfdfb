"""The files of a lock as data: one for each package, exactly. The backends read and write the lock's own text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from envmgr.catalog.site import Site
from envmgr.system.models import FrozenModel
from envmgr.wheels.lockfile import LockedRow
from envmgr.wheels.settings import index_for, locked_url

if TYPE_CHECKING:
    from envmgr.wheels.resolve import Resolved

# An install is about this many times as large as its wheels (measured over torch, tensorflow, Jupyter).
WHEEL_UNPACKED = 2
_SHA256 = r"^[0-9a-f]{64}$"


class LockedWheel(FrozenModel):
    """One wheel. `name` is normalised; `index` is the site's name of the index that has the file, empty for a wheel that
    is fetched from `url`.
    """

    name: str = Field(max_length=200)
    version: str = Field(max_length=200)
    file: str = Field(max_length=400, pattern=r"^[A-Za-z0-9_.!+-]+\.whl$")
    sha256: str = Field(pattern=_SHA256)
    index: str
    size: int | None = None
    uploaded: str = ""
    requires: tuple[str, ...] | None = None
    url: str | None = None

    @property
    def named_rightly(self) -> bool:
        """True if the name of the file is that of its package and version."""
        from envmgr.wheels.index import is_file_of

        return is_file_of(self.row, self.file)

    @property
    def row(self) -> LockedRow:
        url = None if self.index else self.url
        return LockedRow(name=self.name, version=self.version, sha256=self.sha256, url=url)

    def cached(self, cache: Path) -> Path:
        """Return the place of the file in a cache of downloads."""
        return cache / self.sha256 / self.file


LockedFile = LockedWheel


class WheelSet(FrozenModel):
    """The wheels that requirements resolved to, sorted by name, for the version `python` and uv's name `platform`."""

    python: str
    platform: str
    uv: str
    exclude_newer: str | None = None
    wheels: tuple[LockedWheel, ...]

    @property
    def versions(self) -> dict[str, str]:
        return {wheel.name: wheel.version for wheel in self.wheels}

    @property
    def packages(self) -> tuple[LockedFile, ...]:
        """The packages that are installed, each by its file."""
        return self.wheels

    @property
    def rows(self) -> tuple[LockedRow, ...]:
        return tuple(wheel.row for wheel in self.wheels)

    @property
    def indexes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(wheel.index for wheel in self.wheels if wheel.index))

    def identity(self) -> list[list[str]]:
        """Return everything of its wheels that decides the bytes of an install."""
        return _identities(self.wheels)


def _identities(wheels: Iterable[LockedWheel]) -> list[list[str]]:
    return [[wheel.name, wheel.version, wheel.file, wheel.sha256] for wheel in wheels]


def describe_wheels(packages: Iterable[LockedFile]) -> dict[str, str]:
    """Map each name to `version tags`, as diffs, generations and plans show a package."""
    return {
        each.name: f"{each.version} {'-'.join(each.file.removesuffix('.whl').split('-')[-3:])}" for each in packages
    }


def wheel_set(found: Resolved, site: Site) -> WheelSet:
    """Return what was resolved in the form of conda's and users' locks."""
    lock = found.lock
    wheels = []
    for each in found.files:
        index = "" if each.row.url else index_for(each.url, site) or lock.indexes[0]
        url = locked_url(index, each.url, each.file) if index else each.url
        fields = each.row.model_dump(exclude={"url"})
        wheels.append(LockedWheel(**fields, file=each.file, index=index, url=url, size=each.size))
    return WheelSet(
        python=lock.python,
        platform=lock.platform,
        uv="",
        exclude_newer=lock.exclude_newer,
        wheels=tuple(sorted(wheels, key=lambda each: each.name)),
    )


class AddedWheels(WheelSet):
    """The wheels that are added to the packages of another manager, conda.

    `assumed` maps each distribution that the wheels need, and that those packages are assumed to bring, to `name
    version` of the package. A lock that another tool wrote lacks it.
    """

    assumed: Mapping[str, str] = {}

    @property
    def by_name(self) -> dict[str, LockedWheel]:
        from packaging.utils import canonicalize_name  # slow to import, and most locks have no wheels

        return {canonicalize_name(each.name): each for each in self.wheels}

    def describe(self) -> dict[str, str]:
        """Return name -> `version tags`."""
        return describe_wheels(self.wheels)
