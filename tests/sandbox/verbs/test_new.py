"""`envmgr new`: a recipe from nothing, which locks, builds and is tested by what its distributions have."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import BASE, WheelBox, make_wheel_box


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[WheelBox]:
    """A Python that is locked, and the public index in files."""
    made = make_wheel_box(Sandbox(tmp_path_factory.mktemp("new"), str(channel.folder)))
    made.index(pypi=made.house.simple.as_uri())
    made.house.wheel("on-einops", "1.0")
    made.base("pip")
    yield made
    made.box.clear()


def files(scene: WheelBox) -> dict[str, str]:
    return {str(path): path.read_text() if path.is_file() else "" for path in (scene.box.root / "recipes").rglob("*")}


def test_packages_of_the_index_become_a_module_on_the_newest_python_that_is_built(scene: WheelBox) -> None:
    recipe = scene.box.root / "recipes/plots/1.0"
    before = files(scene)
    done = scene.box.ok("new", "plots/1.0", "on-einops<2", "--dry-run")
    assert done.stdout.splitlines()[0] == f"would write {recipe}: recipe.yaml, on system"
    assert files(scene) == before
    scene.box.ok("build", BASE)
    done = scene.box.ok("new", "plots/1.0", "on-einops<2", "absent; python_version < '3'")
    assert done.stdout.splitlines() == [
        f"wrote {recipe}: recipe.yaml, on {BASE}",
        "envmgr lock plots/1.0",
        "envmgr build plots/1.0",
    ]
    made = files(scene)
    assert made[f"{recipe.parent}/software.yaml"] == "description: on-einops<2, absent; python_version < '3'\n"
    assert made[f"{recipe}/recipe.yaml"] == (
        "# Made by `envmgr new`.\nschema: 1\nbackend: wheels\n"
        f"input:\n  python: {BASE}\n  requirements:\n  - on-einops<2\n  - absent; python_version < '3'\n"
        "tests:\n- name: imports\n  imports:\n  - on-einops\n"
    )
    scene.box.ok("lock", "plots/1.0")
    assert "test plots/1.0 `imports`: ok in " in scene.box.ok("build", "plots/1.0").stdout


def test_entry_without_packages_is_one_package_in_its_version(scene: WheelBox) -> None:
    data = scene.box.ok("new", "on-einops/1.0", "--format", "json").data
    assert (data["imports"], data["files"]) == (["on-einops"], ["recipe.yaml"])
    assert "  - on-einops==1.0.*\n" in files(scene)[f"{data['folder']}/recipe.yaml"]
    scene.box.ok("lock", "on-einops/1.0")


def test_packages_of_a_channel_become_a_module(scene: WheelBox) -> None:
    done = scene.box.ok("new", "sci/1.0", f"python {PYTHON}.*", "pip", "--conda", "standin", "--format", "json")
    assert (done.data["python"], done.data["imports"]) == (None, ["pip"])
    scene.box.ok("lock", "sci/1.0")
    assert "test sci/1.0 `imports`: ok in " in scene.box.ok("build", "sci/1.0").stdout
    data = scene.box.ok("new", "tool/1.0", "hello-prefix", "--conda", "standin", "--format", "json").data
    assert data["imports"] == []  # whether it has modules is not known, and no Python is asked for


def test_module_that_the_install_lacks_fails_the_build(scene: WheelBox) -> None:
    wanted = {"python": "system", "requirements": ["on-einops"]}
    tests = [{"name": "imports", "imports": ["einops"]}]
    scene.box.recipe("wrong/1.0", [], backend="wheels", input=wanted, tests=tests)
    scene.box.ok("lock", "wrong/1.0")
    said = scene.refused("build", "wrong/1.0").stderr
    assert "wrong/1.0 `imports`:\n    no distribution in the install is called einops\n" in said


def test_bad_days_write_nothing(scene: WheelBox) -> None:
    scene.box.recipe("taken/1.0", ["hello-prefix"])
    (scene.box.root / "recipes/file").write_text("")
    before = files(scene)
    said = {
        argv: scene.box.run("new", *argv).stderr.partition("]")[0].removeprefix("error[")
        for argv in (
            ("taken/1.0", "one"),
            ("Taken/2.0", "one"),
            ("taken", "one"),
            ("a/1", "git+https://nobody/x"),
            ("a/gloo",),
            ("a/1", "--conda", "nobody"),
            ("a/1", "--conda", "standin", "x.conda"),
            ("file/1", "one"),
        )
    }
    assert [*said.values()] == [
        "entry-exists",
        "entry-clash",
        "entry-syntax",
        *["requirement-invalid"] * 4,
        "path-unusable",
    ]
    refused = scene.box.run("new", "a/1", "a b")
    assert (refused.code, refused.stderr) == (
        2,
        (
            "error[requirement-invalid]: no recipe of a/1 can ask for this\n"
            "  input.requirements: `a b` is no requirement: Expected semicolon (after name with no version specifier) or end\n"
        ),
    )
    assert files(scene) == before


def test_disk_that_is_full_leaves_nothing(scene: WheelBox) -> None:
    full = 'mount -t tmpfs -o nr_inodes=4 tmpfs recipes; "$@"; find recipes -mindepth 1'
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    new = scene.box.command("new", "half/1.0", "one")
    done = subprocess.run(
        ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", full, "sh", *new],
        cwd=scene.box.root,
        env=scene.box.environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("error[disk-full]" in done.stderr, done.stdout) == (True, ""), done.stderr
