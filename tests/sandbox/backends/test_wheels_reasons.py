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


def older(name: str, newest: str, version: str) -> tuple[str, str]:
    head = OLD.format(name=name, newest=newest, version=version, python=PYTHON)
    return head, HINT.format(name=name, version=version)


def test_old_wheel_of_what_is_newer_as_source_is_refused(scene: WheelBox) -> None:
    """deepspeed, for one: 0.3.1.dev5 is its last wheel, and uv takes it without a word."""
    scene.house.wheel("deep", "0.3")
    scene.house.sdist("deep", "0.19")
    scene.entry("some/1.0", "deep")
    told = scene.refused("lock", "some/1.0").stderr
    head, hint = older("deep", "0.19", "0.3")
    because = "  Because deep==0.19 has no usable wheels and you require deep==0.19,\n"
    end = "  we can conclude that your requirements are unsatisfiable.\n"
    assert told.endswith(f"{head}{because}{end}\n{hint}"), told
    scene.entry("some/1.0", "deep==0.3")  # the hint
    assert scene.lock("some/1.0") == {"deep": "0.3"}


def test_newest_that_another_requirement_excludes_is_said_in_uvs_words(scene: WheelBox) -> None:
    scene.house.wheel("dep", "1.0")
    scene.house.wheel("dep", "2.0")
    scene.house.wheel("top", "2.0", requires=["dep>=2"])
    scene.house.wheel("top", "1.0", requires=["dep"])
    scene.house.wheel("old", "1.0", requires=["dep<2"])
    scene.entry("some/1.0", "top", "old")
    told = scene.refused("lock", "some/1.0").stderr
    head, hint = older("top", "2.0", "1.0")
    assert f"{head}  Because all versions of old depend on dep<2 and top>=2.0 depends on dep>=2,\n" in told
    assert told.endswith(hint)


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
    scene.house.wheel("top", requires=["early"])
    scene.entry("some/1.0", "top")
    told = scene.refused("lock", "some/1.0").stderr
    assert "error[prerelease]: nobody asked for a pre-release, and the lock would get early 2.0rc1\n" in told
    scene.entry("some/1.0", "top", "early==2.0rc1")  # the hint
    assert scene.lock("some/1.0") == {"early": "2.0rc1", "top": "1.0"}


@pytest.mark.parametrize("index", ["beside", "in the wheel"])
def test_prerelease_that_a_package_of_the_lock_asks_for_is_none_of_ours(scene: WheelBox, index: str) -> None:
    """Also where the index has no METADATA beside its wheels: the wheel is asked, and only parts of it are read."""
    scene.house.wheel("early", "2.0rc1")
    scene.house.wheel("top", requires=["early==2.0rc1"])
    scene.house.rich = index == "beside"
    scene.house.write()
    scene.entry("some/1.0", "top")
    with scene.served():
        assert scene.lock("some/1.0") == {"early": "2.0rc1", "top": "1.0"}
        assert scene.box.ok("lock", "--check", "some/1.0", "--format", "json").data["outcomes"][0]["status"] == "fresh"


def test_all_that_a_person_has_to_decide_is_said_in_one_run(scene: WheelBox) -> None:
    scene.house.wheel("early", "2.0rc1")
    scene.house.wheel("deep", "0.3", requires=["early"])
    scene.house.sdist("deep", "0.19")
    scene.house.wheel("nvidia-cuda-runtime-cu12", "12.1.105")
    scene.entry("some/1.0", "deep", "nvidia-cuda-runtime-cu12")
    told = scene.refused("lock", "some/1.0").stderr
    assert [line.split(":")[0].strip() for line in told.splitlines() if "error[" in line] == [
        "error[wheels-older]",
        "error[prerelease]",
        "error[lock-contradicts]",
    ]
    assert not (scene.box.root / "recipes/some/1.0/wheels.lock").exists()


def test_two_cudas_that_one_requirement_brings_are_its_authors_choice(scene: WheelBox) -> None:
    scene.house.wheel("libs-cu12", "12.1.3")
    scene.house.wheel("nvidia-cublas-cu12", "12.1.3")
    scene.house.wheel("nvidia-cuda-runtime", "13.0.1")
    scene.house.wheel("serve", requires=["nvidia-cublas-cu12", "nvidia-cuda-runtime"])
    wanted = {"python": f"system/{PYTHON}", "requirements": ["serve"], "indexes": ["house"]}
    scene.box.recipe("some/1.0", [], backend="wheels", input=wanted, requires={"nvidia_driver": "580.65.06"})
    assert "serve itself needs packages for CUDA 12 and 13" in scene.box.ok("lock", "some/1.0").stdout
    assert scene.box.ok("lock", "--check", "some/1.0", "--format", "json").data["outcomes"][0]["status"] == "fresh"
