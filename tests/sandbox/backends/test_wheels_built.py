"""What a build from source gives can be imported."""

from __future__ import annotations

import json
import re

import pytest

from tests.helpers.builders import builders, compiled, pure
from tests.helpers.sandbox import Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "some/1.0"


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox, *builders())


def built(scene: WheelBox, name: str, files: dict[str, str], **fields: object) -> None:
    """Lock an entry of one package, which is built from this source."""
    scene.house.sdist(name, "1.0", files)
    wanted = {"python": "system", "requirements": [name], "indexes": ["house"], "build": [name]}
    scene.box.recipe(ENTRY, [], backend="wheels", input=wanted, **fields)
    scene.box.ok("lock", ENTRY)


def outcomes(scene: WheelBox) -> dict[str, str]:
    rows = scene.box.ok("test", ENTRY, "--format", "json").data["tests"]
    return {row["test"]: row["status"] for row in rows}


def test_what_was_built_is_imported_whatever_the_recipe_tests(scene: WheelBox) -> None:
    built(scene, "here", compiled("here"), tests=[{"name": "own", "imports": ["here"]}])
    done = scene.box.ok("build", ENTRY)
    assert "has no test" not in done.stderr
    assert outcomes(scene) == {"own": "passed", "built": "passed"}


def test_package_that_cannot_be_imported_is_not_published(scene: WheelBox) -> None:
    files = pure("here") | {"here.py": "import absent\nVERSION = '1.0'\n"}
    built(scene, "here", files)
    done = scene.refused("build", ENTRY)
    assert f"error[smoke-test-failed]: 1 smoke test of {ENTRY} failed\n  {ENTRY} `built`:\n" in done.stderr
    assert re.search(r"`import here` failed: .*here.py, line 1:\n    ModuleNotFoundError", done.stderr)
    assert "ModuleNotFoundError: No module named 'absent'" in done.stderr
    assert scene.box.current() is None
    recipe = json.loads((scene.box.root / "recipes" / ENTRY / "recipe.yaml").read_text())
    recipe["accept"] = {"not-imported": "here: users bring what it imports"}
    (scene.box.root / "recipes" / ENTRY / "recipe.yaml").write_text(json.dumps(recipe))
    scene.box.ok("build", ENTRY)
    assert outcomes(scene) == {"load": "passed", "built": "passed"}


def test_private_extension_that_needs_its_package_first_can_be_imported(scene: WheelBox) -> None:
    """As flash-attn's, which finds torch's libraries only after torch is there; and what no user imports is not."""
    files = {
        "setup.py": "from setuptools import setup\n"
        "setup(name='here', version='1.0', packages=['zwei', 'tests'], py_modules=['a_first'])",
        "a_first.py": "import sys\nassert 'zwei' in sys.modules\n",
        "zwei/__init__.py": "",
        "tests/__init__.py": "import pytest_that_nobody_has\n",
    }
    built(scene, "here", files)
    scene.box.ok("build", ENTRY)
    assert outcomes(scene) == {"load": "passed", "built": "passed"}


def test_entry_without_a_test_is_told_at_build(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.entry(ENTRY, "one")
    scene.lock(ENTRY)
    scene.entry("tested/1.0", "one")
    recipe = scene.box.root / "recipes/tested/1.0/recipe.yaml"
    recipe.write_text(json.dumps({**json.loads(recipe.read_text()), "tests": [{"name": "own", "run": "true"}]}))
    scene.lock("tested/1.0")
    said = f"{ENTRY}: its recipe has no test, so only the default ones run: the module loads, "
    dry = scene.box.ok("build", ENTRY, "tested/1.0", "--dry-run", "--format", "json").data
    assert dry["untested"] == [ENTRY]
    done = scene.box.ok("build", ENTRY, "tested/1.0")
    assert done.stdout.count("has no test") == 1
    assert said in done.stdout
    again = scene.box.ok("build", ENTRY, "tested/1.0", "--format", "json").data
    assert again["untested"] == []
