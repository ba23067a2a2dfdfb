"""A wheels recipe and its lock with a user's wheels, also where packages of it are built from their source."""

from __future__ import annotations

import json
from pathlib import Path

from envmgr.backends.wheels.extend import extended
from envmgr.backends.wheels.input import WheelsInput, read_question
from envmgr.backends.wheels.lock import WheelsLock, read_wheels_lock, recipe_faults
from envmgr.system.files import sha256_bytes
from envmgr.wheels.difference import Difference
from envmgr.wheels.locked import LockedPatch, LockedSdist, LockedWheel, WheelSet

PLATFORM = "x86_64-manylinux_2_28"
PATCH = b"--- a\n+++ b\n"


def wheel(name: str, version: str = "1.0", *requires: str) -> LockedWheel:
    file = f"{name}-{version}-py3-none-any.whl"
    return LockedWheel(name=name, version=version, file=file, sha256="3" * 64, index="pypi", requires=requires)


def sdist(name: str, *patches: LockedPatch) -> LockedSdist:
    file = f"{name}-1.0.tar.gz"
    return LockedSdist(
        name=name, version="1.0", file=file, sha256="4" * 64, index="pypi", build=(), asks=(), patches=patches
    )


def test_sources_and_patches_stay_but_for_a_package_that_the_user_replaced(tmp_path: Path) -> None:
    below, folder = tmp_path / "below/1.0", tmp_path / "made/1.0"
    for each in (below, folder):
        each.mkdir(parents=True)
    patches = [{"file": f"{name}.patch", "sha256": sha256_bytes(PATCH), "package": name} for name in ("kept", "gone")]
    for patch in patches:
        (below / patch["file"]).write_bytes(PATCH)
    (below / "requirements.txt").write_text(f"plain --hash=sha256:{'3' * 64}\nkept\ngone<2\n")
    said = {
        "python": "system/3.11",
        "requirements": "requirements.txt",
        "build": ["kept", "gone"],
        "build_requires": {"gone": ["kept"]},
        "patches": patches,
    }
    wanted = read_question(WheelsInput.model_validate(said), below)
    named = {patch["package"]: LockedPatch(file=patch["file"], sha256=patch["sha256"]) for patch in patches}
    lock = WheelsLock(
        recipe_digest=wanted.digest(),
        python="3.11",
        platform=PLATFORM,
        uv="0.8",
        wheels=(wheel("plain"),),
        sdists=(sdist("gone", named["gone"]), sdist("kept", named["kept"])),
    )
    assert [*recipe_faults(lock, wanted, "3.11")] == []
    own = WheelSet(python="3.11.7", platform=PLATFORM, uv="0.9", wheels=(wheel("gone", "2.0"), wheel("more")))
    more = Difference(("more", "gone"), frozenset({"gone"}), own)
    given, files = extended(lock, wanted, said, more, below)
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert {*files} == {"kept.patch", "wheels.lock", "wheels.lock.json"}
    assert given == {
        "python": "system/3.11",
        "requirements": ["plain", "kept", "more", "gone"],
        "indexes": ["pypi"],
        "build": ["kept"],
        "patches": [patches[0]],
    }
    found = read_wheels_lock(folder)[0]
    question = read_question(WheelsInput.model_validate(given), folder)
    assert found.recipe_digest == question.digest()
    assert found.versions == {"gone": "2.0", "kept": "1.0", "more": "1.0", "plain": "1.0"}
    assert [*recipe_faults(found, question, "3.11")] == []
    json.dumps(given)
