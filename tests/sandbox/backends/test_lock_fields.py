"""Fields of a lock that are held to its files and to its own rows."""

from __future__ import annotations

import hashlib

import pytest

from envmgr.backends.wheels.lock import WheelsLock
from tests.helpers.builders import builders, pure
from tests.helpers.forged_locks import ENTRY, forge_wheels, others
from tests.helpers.sandbox import Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


@pytest.mark.parametrize("where", ["wheels", "build", "both kinds"])
def test_one_name_has_one_file(scene: WheelBox, where: str) -> None:
    """Of two, both would be unpacked."""
    scene.house.add(*builders())
    scene.house.wheel("evil", "6.6")
    scene.house.sdist("here", "1.0", pure("here"))
    folder = scene.entry(ENTRY, "here", build=["here"])
    scene.box.ok("lock", ENTRY)
    scene.house.wheel("here")
    here, evil = others(scene, "here").wheels[0], others(scene, "evil").wheels[0]

    def change(lock: WheelsLock) -> WheelsLock:
        if where == "build":
            sdist = lock.sdists[0]
            twice = (*sdist.build, evil.model_copy(update={"name": sdist.build[0].name}))
            return lock.model_copy(update={"sdists": (sdist.model_copy(update={"build": twice}),)})
        return lock.model_copy(update={"wheels": (here,) if where == "both kinds" else (evil, evil)})

    forge_wheels(folder, change)
    done = scene.box.run("build", ENTRY)
    assert (done.code, "error[lock-invalid]" in done.stderr, "is locked twice" in done.stderr) == (2, True, True)


def test_last_moment_of_the_day_is_not_too_new(scene: WheelBox) -> None:
    scene.house.wheel("alpha", uploaded="2024-06-01T23:59:59.000000Z")
    with scene.served():
        scene.entry(ENTRY, "alpha", exclude_newer="2024-06-01")
        scene.box.ok("lock", ENTRY)
        scene.box.ok("build", ENTRY)


def test_wheel_for_another_platform_under_another_name(scene: WheelBox) -> None:
    """The index has it by its own name: the lock's is nowhere."""
    scene.house.wheel("alpha")
    with scene.served():
        folder = scene.entry(ENTRY, "alpha")
        scene.box.ok("lock", ENTRY)
        path = scene.house.wheel("alpha", tag="py2.py3-none-any")
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        (scene.house.files / "alpha-1.0-py3-none-any.whl").unlink()
        scene.house.write()
        forge_wheels(
            folder,
            lambda lock: lock.model_copy(
                update={"wheels": (lock.wheels[0].model_copy(update={"sha256": sha256, "url": None}),)}
            ),
        )
        done = scene.box.run("build", ENTRY)
        assert (done.code, "error[not-found]: alpha-1.0-py3-none-any.whl is not at" in done.stderr) == (3, True)
