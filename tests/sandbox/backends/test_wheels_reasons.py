"""Why a lock of wheels is refused: the true reason, and a hint that mends it. What the closure asks for itself is no problem."""

from __future__ import annotations

import pytest

from tests.helpers.builders import builders
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


OLD = (
    "error[wheels-older]: {name} has no wheel of {newest} for Python {python} on x86_64-manylinux_2_28 that fits: "
    "the lock would get {version}\n  entry some/1.0\n"
)
HINT = (
    "hint: ask for `{name}=={version}` if that one is what you want; or for another Python or a later platform; or "
    "`build` what has no wheel from its source, in a recipe of wheels\n"
)


def older(name: str, newest: str, version: str) -> str:
    head = OLD.format(name=name, newest=newest, version=version, python=PYTHON)
    return f"{head}\n{HINT.format(name=name, version=version)}"


def test_old_wheel_of_what_is_newer_as_source_is_refused(scene: WheelBox) -> None:
    """deepspeed, for one: 0.3.1.dev5 is its last wheel, and uv takes it without a word."""
    scene.house.wheel("deep", "0.3")
    scene.house.sdist("deep", "0.19")
    scene.entry("some/1.0", "deep")
    told = scene.refused("lock", "some/1.0").stderr
    assert told.endswith(older("deep", "0.19", "0.3")), told
    scene.entry("some/1.0", "deep==0.3")  # the hint
    assert scene.lock("some/1.0") == {"deep": "0.3"}


def test_newest_that_another_requirement_excludes_is_said(scene: WheelBox) -> None:
    scene.house.wheel("dep", "1.0")
    scene.house.wheel("dep", "2.0")
    scene.house.wheel("top", "2.0", requires=["dep>=2"])
    scene.house.wheel("top", "1.0", requires=["dep"])
    scene.house.wheel("old", "1.0", requires=["dep<2"])
    scene.entry("some/1.0", "top", "old")
    assert scene.refused("lock", "some/1.0").stderr.endswith(older("top", "2.0", "1.0"))


def test_what_has_no_wheel_is_said_in_uvs_words_and_the_hint_builds_it(scene: WheelBox) -> None:
    scene.house.sdist("sourceonly", "1.0")
    scene.house.add(*builders())
    scene.entry("some/1.0", "sourceonly")
    told = scene.refused("lock", "some/1.0").stderr
    assert told.startswith("error[unsolvable]: the requirements have no solution in wheels\n  entry some/1.0\n"), told
    assert "  Because sourceonly==1.0 has no usable wheels and only sourceonly==1.0 is available,\n" in told
    assert told.endswith(
        "hint: ask for a version with wheels for this Python and platform, or `build` it from its source, in a recipe of "
        "wheels\n"
    )


def test_prerelease_that_nobody_asked_for_is_refused(scene: WheelBox) -> None:
    scene.house.wheel("early", "2.0rc1")
    scene.entry("some/1.0", "early")
    told = scene.refused("lock", "some/1.0").stderr
    assert "error[prerelease]: nobody asked for a pre-release, and the lock would get early 2.0rc1\n" in told
    scene.entry("some/1.0", "early==2.0rc1")  # the hint
    assert scene.lock("some/1.0") == {"early": "2.0rc1"}


def test_prerelease_that_a_package_needs_is_its_authors_choice(scene: WheelBox) -> None:
    scene.house.wheel("early", "2.0rc1")
    scene.house.wheel("top", requires=["early==2.0rc1"])
    scene.entry("some/1.0", "top")
    assert scene.lock("some/1.0") == {"early": "2.0rc1", "top": "1.0"}
    assert scene.box.ok("lock", "--check", "some/1.0", "--format", "json").data["outcomes"][0]["status"] == "fresh"


def test_all_that_a_person_has_to_decide_is_said_in_one_run(scene: WheelBox) -> None:
    scene.house.wheel("early", "2.0rc1")
    scene.house.wheel("deep", "0.3")
    scene.house.sdist("deep", "0.19")
    scene.house.wheel("nvidia-cuda-runtime-cu12", "12.1.105")
    scene.entry("some/1.0", "deep", "early", "nvidia-cuda-runtime-cu12")
    told = scene.refused("lock", "some/1.0").stderr
    assert [line.split(":")[0].strip() for line in told.splitlines() if "error[" in line] == [
        "error[wheels-older]",
        "error[prerelease]",
        "error[lock-contradicts]",
    ]
    assert not (scene.box.root / "recipes/some/1.0/wheels.lock").exists()
