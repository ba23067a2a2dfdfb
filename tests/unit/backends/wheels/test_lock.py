"""The text of a lock of wheels."""

from __future__ import annotations

from pathlib import Path

from envmgr.backends.wheels.lock import LOCK_NAME, WheelsLock, read_wheels_lock, wheels_lock_texts
from envmgr.wheels.locked import LockedWheel


def wheel(file: str, **fields: object) -> LockedWheel:
    name, version = file.split("-")[:2]
    given = {"name": name.lower().replace("_", "-"), "version": version, "sha256": "0" * 64, "index": "pypi", **fields}
    return LockedWheel.model_validate({**given, "file": file})


def test_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = (
        wheel("b_two-1.0-py3-none-any.whl", size=3, uploaded="2024-01-01T00:00:00+00:00", requires=("a",)),
        wheel("a-2-py3-none-any.whl"),
    )
    lock = WheelsLock(
        recipe_digest="d" * 64, python="3.11.7", platform="x86_64-manylinux_2_28", uv="0.13.9", wheels=rows
    )
    for name, text in wheels_lock_texts(lock).items():
        (tmp_path / name).write_text(text)
    assert read_wheels_lock(tmp_path)[0] == lock
    assert [line.split(" ")[0] for line in (tmp_path / LOCK_NAME).read_text().splitlines()[2:]] == [
        "a==2",
        "b-two==1.0",
    ]
