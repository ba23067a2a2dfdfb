"""A backend, added as CONTRIBUTING.md says to a copy of the package: one new folder, and no other file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.backend_promises import PROMISES
from tests.helpers.backends import ENTRY, LICENSED, Scene
from tests.helpers.contributing import EXAMPLE_BACKEND, copy_with
from tests.helpers.places import ROOT
from tests.helpers.sandbox import Sandbox

FOLDER = "envmgr/backends/script"


@dataclass
class Copied(Sandbox):
    """A sandbox whose envmgr is the copy."""

    copy: Path = Path()

    def environ(self, **extra: str) -> dict[str, str]:
        return super().environ(PYTHONPATH=str(self.copy), **extra)


class ScriptScene:
    licence = "own-licence"
    program = "hello"
    tree = None

    def __init__(self, box: Copied) -> None:
        self.box = box
        box.settings = {"backends": {"script": {"folder": "scripts"}}}
        box.write_site()
        self.scripts = box.root / "scripts"
        self.scripts.mkdir()
        for name in ("hello", "other"):
            (self.scripts / name).write_text(f"#!/bin/sh\necho {name}\n")
        box.recipe(ENTRY, [], backend="script", input={"file": "hello"})
        folder = box.recipe(LICENSED, [], backend="script", input={"file": "hello"})
        (folder.parent / "software.yaml").write_text(json.dumps({"description": "x", "acknowledge": self.licence}))

    def change(self) -> None:
        self.box.recipe(ENTRY, [], backend="script", input={"file": "other"})

    def cut(self) -> None:
        self.scripts.rename(self.box.root / "away")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    copy_with(folder, "nothing/")
    shutil.copytree(EXAMPLE_BACKEND, folder / FOLDER, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def scene(tmp_path: Path, copy: Path) -> Iterator[ScriptScene]:
    made = ScriptScene(Copied(tmp_path, "", copy=copy))
    yield made
    remove_tree(made.box.prefix)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_new_backend_keeps(scene: Scene, promise: Callable[[Scene], None]) -> None:
    promise(scene)


def test_new_backend_goes_by_the_command_line_from_lock_to_gc(scene: ScriptScene) -> None:
    box = scene.box
    box.policies |= {"keep_days": 0, "keep_generations": 1}
    box.write_site()
    assert box.ok("lock", ENTRY).stdout.startswith(f"{ENTRY}: written  1 package\n  + hello ")
    box.ok("build", ENTRY)
    first = box.ok("list", ENTRY, "--format", "json").data["install"]
    (scene.scripts / "hello").write_text("#!/bin/sh\necho again\n")
    assert "  ~ hello " in box.ok("lock", ENTRY).stdout
    box.ok("build", ENTRY)
    assert box.shell("module load promise && hello").stdout == "again\n"
    assert box.ok("gc", "--format", "json").data["installs"] == [str(Path(first).relative_to(box.prefix))]
    box.settings["backends"]["script"] = {"folder": 7}
    box.write_site()
    wrong = box.run("list")
    assert wrong.code == 2
    assert "backends.script.folder: " in wrong.stderr
    assert [p.name for p in (box.prefix / "cache").iterdir()] == ["sources"]


def test_backend_of_one_file_works_too(
    scene: ScriptScene, copy: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    alone = tmp_path_factory.mktemp("alone")
    copy_with(alone, "nothing/")
    shutil.copyfile(copy / FOLDER / "backend.py", alone / f"{FOLDER}.py")
    scene.box.copy = alone
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    assert scene.box.shell("module load promise && hello").stdout == "hello\n"


def test_new_folder_keeps_to_the_rooms(copy: Path) -> None:
    """Generic rooms name no backend, and backends do not know each other."""
    shutil.copyfile(ROOT / "pyproject.toml", copy / "pyproject.toml")
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"],
        capture_output=True,
        text=True,
        check=False,
        cwd=copy,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(copy)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
