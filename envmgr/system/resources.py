"""The files that ship with envmgr: in the wheel under `envmgr/data`, in a checkout beside the package."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def shipped(name: str) -> Path:
    """Return the folder `modulefiles`, `recipes`, `easyconfigs` or `nodesetup` as installed."""
    package = Path(__file__).resolve().parents[1]
    in_wheel = package / "data" / name
    with suppress(PermissionError):  # reading it will say so
        if in_wheel.is_dir():
            return in_wheel
    return package.parent / name
