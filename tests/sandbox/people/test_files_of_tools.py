"""`user create -r` reads other tools' files: their requirements, and the versions of their locks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.people.lock import read_lock
from envmgr.system.files import remove_tree
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
    return read_lock(scene.box.root / ".local/share/envmgr/envs" / name / "wheels.lock").versions


def test_environment_gives_its_pip_packages_and_lists_those_of_conda(scene: WheelBox, tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("name: x\ndependencies:\n- samtools=1.19\n- pip:\n  - einops<0.8\n  - -e .\n")
    done = create(scene, "fromenv", file)
    assert done.code == 0, done.stderr
    assert f"{file}: left out: samtools=1.19: a package of conda" in done.stderr
    assert f"{file}:6: left out: -e .: a checkout or a folder has no sha256" in done.stderr
    assert lock_of(scene, "fromenv") == {"einops": "0.7"}


PYLOCK = f"""\
lock-version = "1.0"
created-by = "x"
[[packages]]
name = "einops"
version = "0.7"
wheels = [{{ url = "https://h/einops-0.7-py3-none-any.whl", hashes = {{ sha256 = "{"a" * 64}" }} }}]
"""


@pytest.mark.parametrize(
    ("name", "text"), [("requirements.txt", f"einops==0.7 --hash=sha256:{'a' * 64}\n"), ("pylock.toml", PYLOCK)]
)
def test_lock_gives_its_versions_and_its_sums_are_named_as_left_out(
    scene: WheelBox, tmp_path: Path, name: str, text: str
) -> None:
    file, own = tmp_path / name, name.partition(".")[0]
    file.write_text(text)
    done = create(scene, own, file)
    said = f"{file}: left out: its sums: the lock gets those of the index"
    assert (done.code, done.stderr.splitlines()[0]) == (0, said)
    assert lock_of(scene, own) == {"einops": "0.7"}


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
