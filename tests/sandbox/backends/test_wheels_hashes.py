"""Hashes that a user wrote beside requirements: a lock has one of these files, or is refused with both values."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

WRONG = "f" * 64


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def entry(scene: WheelBox, text: str, constraints: str = "") -> Path:
    folder = scene.entry(
        "some/1.0", requirements="requirements.txt", **({"constraints": "c.txt"} if constraints else {})
    )
    (folder / "requirements.txt").write_text(text)
    if constraints:
        (folder / "c.txt").write_text(constraints)
    return folder


def test_hash_of_no_file_is_refused_with_both_values(scene: WheelBox) -> None:
    wheel = scene.house.wheel("six", "1.17.0")
    entry(scene, f"six==1.17.0 --hash=sha256:{WRONG}\n")
    said = scene.refused("lock", "some/1.0").stderr
    assert "error[hash-differs]: six 1.17.0 has none of the hashes" in said
    assert f"required: sha256 {WRONG}" in said
    assert f"the index: six-1.17.0-py3-none-any.whl  sha256 {sha256(wheel)}" in said


def test_hash_in_constraints_counts_too(scene: WheelBox) -> None:
    scene.house.wheel("six", "1.17.0")
    entry(scene, "six\n", f"six==1.17.0 --hash=sha256:{WRONG}\n")
    assert "error[hash-differs]" in scene.refused("lock", "some/1.0").stderr


def test_any_of_several_hashes_chooses_the_file(scene: WheelBox) -> None:
    """The best wheel is another one; rows that are for another Python do not count."""
    one = scene.house.wheel("six", "1.17.0")
    scene.house.wheel("six", "1.17.0", build="1")
    text = f"six==1.17.0 \\\n    --hash=sha256:{WRONG} \\\n    --hash=sha256:{sha256(one)}\nsix==1.17.0; python_version < '3' --hash=sha256:{WRONG}\n"
    entry(scene, text)
    assert scene.lock("some/1.0") == {"six": "1.17.0"}
    assert sha256(one) in (scene.box.root / "recipes/some/1.0/wheels.lock").read_text()
    scene.box.ok("lock", "--check", "some/1.0")


def test_hash_that_was_changed_later_makes_the_lock_stale(scene: WheelBox) -> None:
    wheel = scene.house.wheel("six", "1.17.0")
    folder = entry(scene, f"six==1.17.0 --hash=sha256:{sha256(wheel)}\n")
    scene.lock("some/1.0")
    (folder / "requirements.txt").write_text(f"six==1.17.0 --hash=sha256:{WRONG}\n")
    done = scene.box.run("lock", "--check", "some/1.0")
    assert done.code == 1
    assert "has none of the hashes that the requirements say" in done.stdout + done.stderr
    assert "error[hash-differs]" in scene.refused("build", "some/1.0").stderr
    assert "has none of the hashes" in scene.box.run("check", "some/1.0").stdout
