"""What a build from source gives: no extension module is left out in silence, and what it has can be imported."""

from __future__ import annotations

import json
import re

import pytest

from tests.helpers.builders import builders, compiled, pure
from tests.helpers.sandbox import Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "some/1.0"
# As horovod's: CMake builds what it finds; without a framework setup.py goes on, and says so in its output only.
LEAVES_OUT = """\
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class Build(build_ext):
    def build_extensions(self):
        for extension in self.extensions:
            print(f"Extension {extension.name} has not been built")


def labels():
    return [Extension(f"flow.{name}.lib", sources=[]) for name in ("torch", "jax")]


setup(
    name="flow", version="1.0", packages=["flow", "flow.torch", "flow.jax"],
    ext_modules=labels(), cmdclass={"build_ext": Build},
)
"""
FLOW = {"setup.py": LEAVES_OUT, **{f"flow/{name}__init__.py": "" for name in ("", "torch/", "jax/")}}


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    made = make_wheel_box(sandbox)
    made.house.add(*builders())
    return made


def built(scene: WheelBox, name: str, files: dict[str, str], **fields: object) -> None:
    """Lock an entry of one package, which is built from this source."""
    scene.house.sdist(name, "1.0", files)
    wanted = {"python": "system", "requirements": [name], "indexes": ["house"], "build": [name]}
    scene.box.recipe(ENTRY, [], backend="wheels", input=wanted, **fields)
    scene.box.ok("lock", ENTRY)


def made_of(scene: WheelBox) -> dict[str, str]:
    root = scene.install(ENTRY)
    manifest = json.loads((root.parent / f"{root.name}.manifest.json").read_text())
    return manifest["provenance"]["made"][0]


def outcomes(scene: WheelBox) -> dict[str, str]:
    rows = scene.box.ok("test", ENTRY, "--format", "json").data["tests"]
    return {row["test"]: row["status"] for row in rows}


def test_extensions_that_a_build_leaves_out_are_an_error(scene: WheelBox) -> None:
    built(scene, "flow", FLOW)
    told = scene.refused("build", ENTRY).stderr
    head = (
        "error[extensions-missing]: the wheel of flow 1.0 lacks 2 of the 2 extension modules that its source declares\n"
    )
    assert f"{head}  flow.jax.lib\n  flow.torch.lib\n  Extension flow.torch.lib has not been built\n" in told
    (log,) = scene.box.prefix.glob("var/log/wheels/*-flow.log")
    assert f"\n  log: {log}\n" in told
    assert "`build_requires: {flow: [NAME==VERSION]}`" in told
    assert not list(scene.box.prefix.glob("store/some/*"))


def test_recipe_accepts_the_extensions_that_it_names_and_no_others(scene: WheelBox) -> None:
    accept = {"missing-extensions": "flow.jax.lib: no JAX here"}
    built(scene, "flow", FLOW, accept=accept)
    told = scene.refused("build", ENTRY).stderr
    assert "lacks 2 of the 2 extension modules that its source declares\n  flow.torch.lib\n" in told
    line = re.search(r'`accept: \{missing-extensions: "(.*): why"\}`', told)
    assert line is not None
    accept["missing-extensions"] = f"{line[1]}: the hint says how"
    scene.box.recipe(
        ENTRY,
        [],
        backend="wheels",
        input={"python": "system", "requirements": ["flow"], "indexes": ["house"], "build": ["flow"]},
        accept=accept,
    )
    done = scene.box.ok("build", ENTRY)
    assert "; extension modules: 0 of 2 declared, without flow.jax.lib, flow.torch.lib\n" in done.stderr
    assert made_of(scene)["extensions"] == "0 of 2 declared, without flow.jax.lib, flow.torch.lib"


def test_optional_extension_that_does_not_compile_is_an_error(scene: WheelBox) -> None:
    """setuptools goes on, and the package is slow for ever."""
    files = compiled("here", extension="int answer(void) { return unknown; }\n")
    files["setup.py"] = files["setup.py"].replace('["here/fast.c"])', '["here/fast.c"], optional=True)')
    files["here/__init__.py"] = ""
    built(scene, "here", files)
    told = scene.refused("build", ENTRY).stderr
    assert "error[extensions-missing]: the wheel of here 1.0 lacks 1 of the 1 extension modules" in told
    assert 'building extension "here._fast" failed: command ' in told


def test_extension_that_is_taken_away_while_it_builds_is_an_error(scene: WheelBox) -> None:
    files = FLOW | {
        "setup.py": LEAVES_OUT.replace(
            "    def build_extensions(self):\n",
            "    def finalize_options(self):\n        super().finalize_options()\n        self.extensions.clear()\n\n"
            "    def build_extensions(self):\n",
        )
    }
    built(scene, "flow", files)
    assert "lacks 2 of the 2 extension modules" in scene.refused("build", ENTRY).stderr


def test_build_says_of_which_wheels_it_knows_nothing(scene: WheelBox) -> None:
    built(scene, "here", pure("here"))
    done = scene.box.ok("build", ENTRY)
    said = "not looked at, because its build does not use setuptools"
    assert f"twice the same: here-1.0-py2.py3-none-any.whl; extension modules: {said}\n" in done.stderr
    assert made_of(scene)["extensions"] == said


def test_what_was_built_is_imported_whatever_the_recipe_tests(scene: WheelBox) -> None:
    built(scene, "here", compiled("here"), tests=[{"name": "own", "imports": ["here"]}])
    done = scene.box.ok("build", ENTRY)
    assert "; extension modules: 1 of 1 declared\n" in done.stderr
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
    done = scene.box.ok("build", ENTRY)
    assert "; extension modules: none declared\n" in done.stderr
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
