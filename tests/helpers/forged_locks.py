"""Locks that somebody changed by hand, with their sidecars, and what envmgr says of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from envmgr.backends.conda.lock import CondaLock
from envmgr.backends.conda.lockfile import lock_texts as conda_texts
from envmgr.backends.conda.lockfile import read_lock as read_conda
from envmgr.wheels.lockfile import WHEELS_LOCK, LockedRow, LockedWheels, read_wheels, wheels_text
from tests.helpers.sandbox import Sandbox
from tests.helpers.wheel_scene import WheelBox

ENTRY = "some/1.0"


def forge_wheels(folder: Path, change: Callable[[LockedWheels], LockedWheels]) -> None:
    """Write the lock again, as envmgr would, with the recipe's digest as it was."""
    (folder / WHEELS_LOCK).write_text(wheels_text(change(read_wheels((folder / WHEELS_LOCK).read_text(), folder)[0])))


def forge_conda(folder: Path, change: Callable[[CondaLock], CondaLock]) -> None:
    for name, text in conda_texts(change(read_conda(folder)[0])).items():
        (folder / name).write_text(text)


def refused_everywhere(box: Sandbox, told: str) -> None:
    checked = box.run("lock", "--check", ENTRY)
    assert (checked.code, told in checked.stdout) == (1, True), checked.stdout + checked.stderr
    found = box.run("check", ENTRY)
    assert (found.code, told in found.stdout) == (1, True), found.stdout + found.stderr
    built = box.run("build", ENTRY)
    assert (built.code, told in built.stderr) == (2, True), built.stdout + built.stderr
    assert not [*box.prefix.glob(f"store/{ENTRY}-*")]


def others(scene: WheelBox, *requirements: str) -> tuple[LockedRow, ...]:
    """The rows that a lock of these would have."""
    folder = scene.entry("other/1.0", *requirements)
    scene.lock("other/1.0")
    return read_wheels((folder / WHEELS_LOCK).read_text(), folder)[0].rows
