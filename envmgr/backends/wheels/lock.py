"""The lock as data. Files that hold it are read and written by lockfile.py."""

from __future__ import annotations

from envmgr.wheels.lock import WheelSet


class WheelsLock(WheelSet):
    """What a recipe resolved to. `python` is the version of the base's Python, `platform` as in the recipe."""

    recipe_digest: str
