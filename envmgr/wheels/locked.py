"""The files of a lock as data: one for each package, exactly. The backends read and write the lock's own text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from envmgr.system.models import FrozenModel

# An install is about this many times as large as its wheels (measured over torch, tensorflow, Jupyter).
WHEEL_UNPACKED = 2
_SHA256 = r"^[0-9a-f]{64}$"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of an environment, and its rows of Requires-Dist; None if they are unknown."""

    version: str
    requires: Sequence[str] | None


class _LockedFile(FrozenModel):
    """The fields that every file has. `name` is normalised; `index` is the site's name of the index that has the file.

    `size` is bytes, and `uploaded` the index's time in UTC; None and empty if the index does not give them.
    """

    name: str = Field(max_length=200)
    version: str = Field(max_length=200)
    file: str = Field(max_length=400)
    sha256: str = Field(pattern=_SHA256)
    index: str
    size: int | None = None
    uploaded: str = ""

    @property
    def named_rightly(self) -> bool:
        """True if the name of the file is that of its package and version."""
        from packaging.utils import parse_sdist_filename, parse_wheel_filename  # slow to import
        from packaging.version import Version

        read = parse_wheel_filename if self.file.endswith(".whl") else parse_sdist_filename
        try:
            name, version = read(self.file)[:2]
            return name == self.name and version == Version(self.version)
        except ValueError:  # each error of packaging is one
            return False

    def cached(self, cache: Path) -> Path:
        """Return the place of the file in a cache of downloads."""
        return cache / self.sha256 / self.file


class LockedWheel(_LockedFile):
    """One wheel. `url` is where the lock says that the file lies; a wheel without an index is fetched there.

    `requires` is Requires-Dist; None if the index does not give it.
    """

    file: str = Field(max_length=400, pattern=r"^[A-Za-z0-9_.!+-]+\.whl$")
    requires: tuple[str, ...] | None = None
    url: str | None = None


class LockedPatch(FrozenModel):
    """A file beside the recipe."""

    file: str
    sha256: str = Field(pattern=_SHA256)


class LockedSdist(_LockedFile):
    """One source that a wheel is built from. `requires` is the Requires-Dist of that wheel.

    `build` are the wheels that it is built with, sorted by name.
    """

    file: str = Field(max_length=400, pattern=r"^[A-Za-z0-9_.!+-]+\.(tar\.gz|zip)$")
    requires: tuple[str, ...] = ()
    build: tuple[LockedWheel, ...]
    patches: tuple[LockedPatch, ...] = ()

    def identity(self) -> list[object]:
        """Return everything of it that decides the bytes of its wheel."""
        own = [self.name, self.version, self.file, self.sha256]
        return [*own, _identities(self.build), [patch.sha256 for patch in self.patches]]


LockedFile = LockedWheel | LockedSdist


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
    def groups(self) -> tuple[tuple[LockedFile, ...], ...]:
        """All files, in groups that hold one version of a package, so that uv can be asked for each at once."""
        return (self.wheels,)

    @property
    def files(self) -> tuple[LockedFile, ...]:
        """All files that a build needs, each once."""
        return tuple({each.sha256: each for group in self.groups for each in group}.values())

    def identity(self) -> list[list[str]]:
        """Return everything of its wheels that decides the bytes of an install."""
        return _identities(self.wheels)


def _identities(wheels: Iterable[LockedWheel]) -> list[list[str]]:
    return [[wheel.name, wheel.version, wheel.file, wheel.sha256] for wheel in wheels]


def describe_wheels(packages: Iterable[LockedFile]) -> dict[str, str]:
    """Map each name to `version tags` or `version source`, as diffs, generations and plans show a package."""
    return {each.name: f"{each.version} {_kind(each)}" for each in packages}


def _kind(each: LockedFile) -> str:
    return "source" if isinstance(each, LockedSdist) else "-".join(each.file.removesuffix(".whl").split("-")[-3:])


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

    @property
    def parts(self) -> dict[str, Distribution]:
        """Return what each wheel needs, according to the lock."""
        return {name: Distribution(each.version, each.requires) for name, each in self.by_name.items()}

    def describe(self) -> dict[str, str]:
        """Return name -> `version tags`."""
        return describe_wheels(self.wheels)
