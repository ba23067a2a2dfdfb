"""A user's environment as an entry of the site's catalog: the very packages, and the administrator solves nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envmgr.system.files import remove_tree
from envmgr.system.yamlfile import parse_yaml
from tests.helpers.done import Done
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "sci/1.0"
SPECS = [f"python {PYTHON}.*", "pip", "six"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[WheelBox]:
    """An entry of conda with Python, pip and six 1.17, and an index with wheels that need it."""
    box = Sandbox(tmp_path_factory.mktemp("requests"), str(channel.folder))
    box.write_site()
    made = make_wheel_box(box)
    made.house.wheel("einops", "0.7", scripts={"einops-tool": "einops:main"})
    made.house.wheel("on-six", requires=["six>=1"])
    made.index(pypi=made.house.simple.as_uri())
    box.recipe(ENTRY, SPECS)
    box.ok("lock", ENTRY)
    box.ok("build", ENTRY)
    yield made
    remove_tree(box.root / ".local")
    box.clear()


def user(box: Sandbox, *argv: str) -> dict[str, Any]:
    done = run(box, *argv, "--format", "json")
    assert done.code == 0, done.stdout + done.stderr
    return done.data


def run(box: Sandbox, *argv: str) -> Done:
    return box.run("user", *argv, HOME=str(box.root))


def test_x(scene: WheelBox) -> None:
    box = scene.box
    user(box, "create", "mine", "--on", ENTRY, "on-six", "einops")
    done = run(box, "request", "mine", "--why", "plots of https://me:secret@host.invalid/x")
    print(done.stdout, done.stderr)
    assert done.code == 0
    for p in sorted((box.root / "request-mine").rglob("*")):
        print("=====", p)
        if p.is_file() and not p.name.startswith("conda-lock"):
            print(p.read_text())
    shutil.copytree(box.root / "request-mine/sci-mine", box.root / "recipes/sci-mine")
    print(box.run("catalog", "check", "sci-mine/1.0"))
    print(box.run("lock", "--check", "sci-mine/1.0"))
    print(box.run("build", "sci-mine/1.0"))
    assert 0
