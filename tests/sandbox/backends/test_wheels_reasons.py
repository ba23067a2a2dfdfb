"""Why a lock of wheels is refused: the true reason, and a hint that mends it. What the closure asks for itself is no problem."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import pytest

from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


def test_old_wheel_of_what_is_newer_as_source_is_refused(scene: WheelBox) -> None:
    """deepspeed, for one: 0.3.1.dev5 is its last wheel, and uv takes it without a word."""
    scene.house.wheel("deep", "0.3")
    scene.house.sdist("deep", "0.19")
    scene.entry("some/1.0", "deep")
    told = scene.refused("lock", "some/1.0").stderr
    assert (
        "error[wheels-older]: the newest deep that the recipe allows is 0.19, and the lock would get 0.3\n"
        "  entry some/1.0\n"
        "  deep 0.19 has no wheels: there is only its source, deep-0.19.tar.gz\n"
    ) in told
    assert "hint: `build: [deep]` in the recipe builds it from its source; or " in told
    assert "ask for `deep==0.3` if that one is what you want" in told
    scene.entry("some/1.0", "deep==0.3")  # the hint
    assert scene.lock("some/1.0") == {"deep": "0.3"}


LATER = f"cp{sys.version_info[0]}{sys.version_info[1]}-abi3-manylinux_2_34_x86_64"


def test_newest_whose_dependency_is_for_a_later_platform_names_the_platform(scene: WheelBox) -> None:
    """vllm, for one: its own wheel fits, and llguidance has none for manylinux_2_28."""
    scene.house.wheel("guide", "1.7", tag=LATER)
    scene.house.wheel("top", "2.0", requires=["guide>=1.7"])
    scene.house.wheel("top", "1.0")
    scene.entry("some/1.0", "top")
    told = scene.refused("lock", "some/1.0").stderr
    assert (
        "error[wheels-older]: the newest top that the recipe allows is 2.0, and the lock would get 1.0\n"
        "  entry some/1.0\n"
        "  top 2.0 needs wheels for x86_64-manylinux_2_34, and the recipe is for x86_64-manylinux_2_28: "
        f"guide-1.7-{LATER}.whl\n\n"
        "hint: `platform: x86_64-manylinux_2_34` in the recipe gets top 2.0, if every node has glibc 2.34 or later; or "
        "ask for `top==1.0` if that one is what you want\n"
    ) in told
    scene.entry("some/1.0", "top", platform="x86_64-manylinux_2_34")  # the hint
    assert scene.lock("some/1.0") == {"guide": "1.7", "top": "2.0"}


def test_platform_on_which_nothing_old_is_left_has_no_solution_and_is_named(scene: WheelBox) -> None:
    scene.house.wheel("guide", "1.7", tag=LATER)
    scene.entry("some/1.0", "guide")
    told = scene.refused("lock", "some/1.0").stderr
    assert told.startswith("error[unsolvable]: the requirements have no solution in wheels\n  entry some/1.0\n")
    assert (
        f"  a solution needs wheels for x86_64-manylinux_2_34, and the recipe is for x86_64-manylinux_2_28: guide-1.7-{LATER}.whl\n"
        in told
    )
    assert (
        "hint: `platform: x86_64-manylinux_2_34` in the recipe gets a solution, if every node has glibc 2.34 or later\n"
        in told
    )


def test_wheels_added_to_conda_name_condas_field_for_the_platform(scene: WheelBox) -> None:
    scene.house.wheel("guide", "1.7", tag=LATER)
    scene.conda("some/1.0", ["python"], "guide")
    told = scene.refused("lock", "some/1.0").stderr
    assert '`virtual_packages: {__glibc: "2.34"}` in the recipe gets a solution' in told
    assert "build:" not in told


def test_newest_whose_dependency_is_there_as_source_only_names_the_dependency(scene: WheelBox) -> None:
    scene.house.sdist("deep", "2.0")
    scene.house.wheel("deep", "1.0")
    scene.house.wheel("top", "2.0", requires=["deep>=2"])
    scene.house.wheel("top", "1.0")
    scene.entry("some/1.0", "top")
    told = scene.refused("lock", "some/1.0").stderr
    assert "  deep 2.0 has no wheels: there is only its source, deep-2.0.tar.gz\n" in told
    assert "hint: `build: [deep]` in the recipe builds it from its source; or " in told


def test_newest_that_another_requirement_excludes_is_said_in_uvs_words(scene: WheelBox) -> None:
    scene.house.wheel("dep", "1.0")
    scene.house.wheel("dep", "2.0")
    scene.house.wheel("top", "2.0", requires=["dep>=2"])
    scene.house.wheel("top", "1.0", requires=["dep"])
    scene.house.wheel("old", "1.0", requires=["dep<2"])
    scene.entry("some/1.0", "top", "old")
    told = scene.refused("lock", "some/1.0").stderr
    assert "error[wheels-older]: the newest top that the recipe allows is 2.0, and the lock would get 1.0\n" in told
    assert "  Because all versions of old depend on dep<2 and top>=2.0 depends on dep>=2,\n" in told
    assert "hint: ask for `top==1.0` if that one is what you want\n" in told


def test_source_alone_has_no_solution_and_the_hint_builds_it(scene: WheelBox) -> None:
    scene.house.sdist("sourceonly", "1.0")
    scene.entry("some/1.0", "sourceonly")
    told = scene.refused("lock", "some/1.0").stderr
    assert told.startswith("error[unsolvable]: ")
    assert "  sourceonly 1.0 has no wheels: there is only its source, sourceonly-1.0.tar.gz\n" in told
    assert "hint: `build: [sourceonly]` in the recipe builds it from its source; or " in told
    assert "--no-build" not in told


def test_wheels_for_other_systems_are_said(scene: WheelBox) -> None:
    scene.house.wheel("elsewhere", tag="py3-none-win_amd64")
    scene.entry("some/1.0", "elsewhere")
    told = scene.refused("lock", "some/1.0").stderr
    where = f"Python {sys.version_info[0]}.{sys.version_info[1]} on x86_64-manylinux_2_28"
    assert f"elsewhere 1.0 has no wheel for {where}; it has elsewhere-1.0-py3-none-win_amd64.whl" in told


@pytest.mark.parametrize("served", [False, True])
def test_wheels_for_older_pythons_are_said(scene: WheelBox, served: bool) -> None:
    """numpy 1.19, for one: uv does not list wheels that no later Python can use, and they are there."""
    for tag in ("cp39-cp39-manylinux2014_x86_64", "cp310-cp310-manylinux1_x86_64", "cp39-cp39-win32"):
        scene.house.wheel("aged", tag=tag)
    scene.house.sdist("aged", "1.0")
    scene.entry("some/1.0", "aged")
    with scene.served() if served else nullcontext():
        told = scene.refused("lock", "some/1.0").stderr
    where = f"Python {sys.version_info[0]}.{sys.version_info[1]} on x86_64-manylinux_2_28"
    assert f"  aged 1.0 has no wheel for {where}; it has some for cp39, cp310\n" in told
    assert "hint: build on another Python (`python` in the recipe); or `build: [aged]` in the recipe builds it" in told


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
