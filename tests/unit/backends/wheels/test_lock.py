"""The files of a lock of wheels."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.backends.wheels.lock import WheelsLock, read_wheels_lock, wheels_lock_texts
from envmgr.errors import EnvmgrError
from envmgr.wheels.lockfile import LockedRow, LockedWheels


def wheels(size: int | None, **sums: str) -> LockedWheels:
    rows = tuple(LockedRow(name=name, version="1.0", sha256=sha256 * 64) for name, sha256 in sums.items())
    return LockedWheels(python="3.11.7", platform="x86_64-manylinux_2_28", size=size, rows=rows)


LOCK = WheelsLock(wheels(3, dep="a", here="b"), {"here": wheels(4, dep="a", flit="c"), "bare": wheels(0)})


def write(folder: Path) -> None:
    for name, text in wheels_lock_texts(LOCK).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def test_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    write(tmp_path)
    found, sha256 = read_wheels_lock(tmp_path, ["here", "bare"])
    assert found == LOCK
    assert [row.name for row in found.sources] == ["here"]
    assert [row.sha256[0] for row in found.rows] == ["a", "b", "c"]  # each file once
    assert (found.size, WheelsLock(LOCK.wheels, {"here": wheels(None)}).size) == (7, None)
    (tmp_path / "wheels.build/here.lock").write_text(wheels_lock_texts(LOCK)["wheels.build/bare.lock"])
    assert read_wheels_lock(tmp_path, ["here", "bare"])[1] != sha256


def test_lock_without_what_a_source_is_built_with_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "some/1.0"
    folder.mkdir(parents=True)
    write(folder)
    with pytest.raises(EnvmgrError) as raised:
        read_wheels_lock(folder, ["here", "other"])
    assert raised.value.render() == (
        f"error[lock-missing]: some/1.0 has no lock\n  {folder}/wheels.build/other.lock\n\n"
        "hint: run `envmgr lock some/1.0` and commit the result"
    )
