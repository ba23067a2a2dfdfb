"""The lock of a recipe as data. Files that hold it are read and written by lockfile.py."""

from __future__ import annotations

from envmgr.wheels.closure import Part
from envmgr.wheels.lock import LockedFile, LockedSdist, WheelSet


class WheelsLock(WheelSet):
    """What a recipe resolved to. `python` is the version of the base's Python, `platform` as in the recipe.

    `sdists` are packages of it that are built from their source.
    """

    recipe_digest: str
    sdists: tuple[LockedSdist, ...] = ()

    @property
    def packages(self) -> tuple[LockedFile, ...]:
        """What is installed, or becomes what is installed, sorted by name."""
        return tuple(sorted((*self.wheels, *self.sdists), key=lambda each: each.name))

    @property
    def versions(self) -> dict[str, str]:
        return {each.name: each.version for each in self.packages}

    @property
    def parts(self) -> dict[str, Part]:
        """What is installed, and what the lock says that it needs."""
        return {each.name: Part(each.version, each.requires) for each in self.packages}

    @property
    def groups(self) -> tuple[tuple[LockedFile, ...], ...]:
        return (self.wheels, *(sdist.build for sdist in self.sdists), self.sdists)
