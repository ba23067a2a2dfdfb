"""The lock of a wheels recipe: `wheels.lock`, and for each source a `wheels.build/NAME.lock` of the same form.

pip and uv read both (`--require-hashes -r wheels.lock`). The recipe says which rows are sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envmgr.catalog.locks import lock_text, missing_lock
from envmgr.errors import EnvmgrError
from envmgr.system.files import sha256_bytes
from envmgr.wheels.lockfile import WHEELS_LOCK, LockedRow, LockedWheels, read_wheels, wheels_text

BUILD_FOLDER = "wheels.build"


@dataclass(frozen=True, slots=True)
class WheelsLock:
    """The files that a recipe resolved to. `builds` maps the name of each source to the wheels that it is built with."""

    wheels: LockedWheels
    builds: Mapping[str, LockedWheels]

    @property
    def sources(self) -> tuple[LockedRow, ...]:
        """The rows whose file is a source."""
        return tuple(row for row in self.wheels.rows if row.name in self.builds)

    @property
    def rows(self) -> tuple[LockedRow, ...]:
        """All files that a build needs, each once."""
        each = [self.wheels, *self.builds.values()]
        return tuple({row.sha256: row for lock in each for row in lock.rows}.values())

    @property
    def size(self) -> int | None:
        """Bytes of all files; None if an index does not give them."""
        sizes = [lock.size for lock in (self.wheels, *self.builds.values()) if lock.size is not None]
        return sum(sizes) if len(sizes) == 1 + len(self.builds) else None


def build_lock(name: str) -> str:
    """Return the file of the wheels that a source is built with, below the recipe's folder."""
    return f"{BUILD_FOLDER}/{name}.lock"


def wheels_lock_texts(lock: WheelsLock) -> dict[str, str]:
    """Map file names to texts, in the order of writing: the lock itself last."""
    builds = {build_lock(name): wheels_text(each) for name, each in sorted(lock.builds.items())}
    return {**builds, WHEELS_LOCK: wheels_text(lock.wheels)}


def read_wheels_lock(
    folder: Path, build: Sequence[str], require: Callable[[LockedWheels], None] = lambda _: None
) -> tuple[WheelsLock, str]:
    """Return the lock beside a recipe that builds these packages, and the sha256 of its text.

    `require` may refuse each file; `wheels.lock` before the others are read.

    Raises:
        EnvmgrError: `lock-missing`; InputError: `lock-invalid`, `lock-unhashed` with file and line.
    """
    texts, read = dict[str, str](), dict[str, LockedWheels]()
    for name in (WHEELS_LOCK, *map(build_lock, build)):
        texts[name] = _text(folder, name)
        read[name] = read_wheels(texts[name], folder / name)[0]
        require(read[name])
    lock = WheelsLock(read[WHEELS_LOCK], {name: read[build_lock(name)] for name in build})
    return lock, sha256_bytes("".join(texts.values()).encode())


def _text(folder: Path, name: str) -> str:
    try:
        return lock_text(folder / name)
    except EnvmgrError as error:
        if error.reference == "lock-missing" and name != WHEELS_LOCK:
            error = missing_lock(folder / WHEELS_LOCK)
            error.context = (str(folder / name),)
        raise error from None
