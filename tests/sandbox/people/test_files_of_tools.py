"""`user create -r` reads other tools' files: their requirements, and the versions and sums of their locks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from envmgr.people.lock import read_lock
from envmgr.system.files import remove_tree, sha256_file
from tests.helpers.done import Done
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "sci/1.0"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[WheelBox]:
    box = Sandbox(tmp_path_factory.mktemp("files"), str(channel.folder))
    box.write_site()
    made = make_wheel_box(box)
    made.index(pypi=made.house.simple.as_uri())
    box.recipe(ENTRY, [f"python {PYTHON}.*", "pip", "six"])
    box.ok("lock", ENTRY)
    box.ok("build", ENTRY)
    made.house.wheel("einops", "0.7")
    made.house.wheel("einops", "0.8")
    yield made
    remove_tree(box.root / ".local")
    box.clear()


def create(scene: WheelBox, name: str, file: Path, *more: str) -> Done:
    return scene.box.run("user", "create", name, "--on", ENTRY, "-r", str(file), *more, HOME=str(scene.box.root))


def lock_of(scene: WheelBox, name: str) -> dict[str, str]:
    return read_lock(scene.box.root / ".local/share/envmgr/envs" / name / "pylock.toml").versions


def test_environment_gives_its_pip_packages_and_lists_those_of_conda(scene: WheelBox, tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("name: x\ndependencies:\n- samtools=1.19\n- pip:\n  - einops<0.8\n  - -e .\n")
    done = create(scene, "fromenv", file)
    assert done.code == 0, done.stderr
    assert f"{file}: left out: samtools=1.19: a package of conda" in done.stderr
    assert f"{file}:6: left out: -e .: a checkout or a folder has no sha256" in done.stderr
    assert lock_of(scene, "fromenv") == {"einops": "0.7"}


def test_lock_gives_its_versions_and_holds_to_its_sums(scene: WheelBox, tmp_path: Path) -> None:
    wheel = scene.house.files / "einops-0.7-py3-none-any.whl"
    text = f"""\
lock-version = "1.0"
created-by = "x"
[[packages]]
name = "einops"
version = "0.7"
wheels = [{{ url = "{wheel.as_uri()}", hashes = {{ sha256 = "{sha256_file(wheel)}" }} }}]
"""
    file = tmp_path / "pylock.toml"
    file.write_text(text)
    assert create(scene, "fromlock", file).code == 0
    assert lock_of(scene, "fromlock") == {"einops": "0.7"}
    file.write_text(text.replace(sha256_file(wheel), "a" * 64))
    done = create(scene, "othersum", file)
    assert (done.code, done.stderr.partition("]")[0].splitlines()[-1]) == (2, "error[hash-differs")
    assert not (scene.box.root / ".local/share/envmgr/envs/othersum").exists()


def test_sum_of_a_conda_lock_is_held_to(scene: WheelBox, tmp_path: Path) -> None:
    wheel = scene.house.files / "einops-0.7-py3-none-any.whl"
    rows = [
        {
            "name": "zlib",
            "manager": "conda",
            "url": "https://h/c/linux-64/zlib-1-h0_0.conda",
            "hash": {"sha256": "b" * 64},
        },
        {"name": "einops", "manager": "pip", "url": wheel.as_uri(), "hash": {"sha256": "0" * 64}},
    ]
    document = {"version": 1, "package": [{"version": "0.7", "platform": "linux-64", **row} for row in rows]}
    document["package"][0]["version"] = "1"  # type: ignore[index]
    file = tmp_path / "conda-lock.yml"
    file.write_text(yaml.safe_dump(document))
    done = create(scene, "forged", file)
    assert (done.code, "error[hash-differs" in done.stderr) == (2, True), done.stderr
    file.write_text(yaml.safe_dump(document).replace("0" * 64, sha256_file(wheel)))
    done = create(scene, "frompins", file)
    assert done.code == 0, done.stderr
    assert lock_of(scene, "frompins") == {"einops": "0.7"}


def test_file_without_pip_packages_is_refused(scene: WheelBox, tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: [samtools]\n")
    done = create(scene, "none", file)
    assert done.stderr.count("samtools") == 1
    assert (done.code, done.stderr.splitlines()[-2:]) == (
        2,
        [
            f"error[import-empty]: {file} asks for no package that an environment can have",
            f"  {file}: left out: samtools: a package of conda",
        ],
    )
