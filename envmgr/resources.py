"""Where the files that ship with envmgr lie: in the wheel under `envmgr/data`, in a checkout beside the package."""

from __future__ import annotations

from pathlib import Path


def shipped(name: str) -> Path:
    """The folder `modulefiles`, `recipes` or `easyconfigs` as installed."""
    package = Path(__file__).resolve().parent
    in_wheel = package / "data" / name
    return in_wheel if in_wheel.is_dir() else package.parent / name
