"""A user's environment becomes an entry: the administrator imports its lock, or takes its rows into a recipe of conda's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from envmgr.system.files import remove_tree
from envmgr.system.yamlfile import parse_yaml
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import BASE, WheelBox, make_wheel_box

SCI = "sci/1.0"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[WheelBox]:
    """A Python, and an entry of conda with six 1.17; the index has einops 0.7."""
    box = Sandbox(tmp_path_factory.mktemp("entries"), str(channel.folder))
    box.write_site()
    made = make_wheel_box(box)
    made.index(pypi=made.house.simple.as_uri())
    box.recipe(BASE, [f"python {PYTHON}.*", "pip"])
    box.recipe(SCI, [f"python {PYTHON}.*", "pip", "six"])
    box.ok("lock", BASE, SCI)
    box.ok("build", BASE, SCI)
    made.house.wheel("einops", "0.7")
    made.house.wheel("on-six", requires=["six>=1"])
    yield made
    remove_tree(box.root / ".local")
    box.clear()


def exported(scene: WheelBox, name: str, on: str, *packages: str) -> list[str]:
    """What `user export` prints of an environment with einops 0.7; the index then has a newer one."""
    box, home = scene.box, str(scene.box.root)
    box.ok("user", "create", name, "--on", on, *packages, HOME=home)
    said = box.ok("user", "export", name, "--output", f"{name}-wheels.lock", HOME=home).stdout
    scene.house.wheel("einops", "0.8")
    scene.index(pypi=scene.house.simple.as_uri())
    return said.splitlines()


def test_lock_of_an_environment_on_a_python_is_imported_and_built_as_it_is(scene: WheelBox) -> None:
    box = scene.box
    assert exported(scene, "mine", BASE, "einops") == [
        "wrote mine-wheels.lock: `envmgr user create NAME --from-lock mine-wheels.lock` makes the same packages",
        "as an entry on a bare Python: `envmgr import mine-wheels.lock --as NAME/VERSION`",
        f"as one with all of {BASE}: a copy of its recipe, with these rows in `pip` (of wheels: `requirements`)",
        "  [einops==0.7]",
    ]
    said = box.ok("import", "mine-wheels.lock", "--as", "mine/1.0").stdout
    assert "  exactly 1 package of mine-wheels.lock; `envmgr build mine/1.0`\n" in said
    box.ok("build", "mine/1.0")
    assert installed(box, "mine/1.0") == ["einops 0.7"]


def test_rows_of_an_environment_go_into_a_copy_of_a_recipe_of_condas(scene: WheelBox) -> None:
    box = scene.box
    rows = exported(scene, "more", SCI, "einops<0.8", "on-six")[-1].strip()
    assert rows == "[einops==0.7, on-six==1.0]"
    shutil.copytree(box.root / "recipes/sci", box.root / "recipes/sci-more")
    file = box.root / "recipes/sci-more/1.0/recipe.yaml"
    recipe = json.loads(file.read_text())
    file.write_text(json.dumps(recipe | {"input": recipe["input"] | {"pip": parse_yaml(rows, "rows")}}))
    box.ok("lock", "sci-more/1.0")
    box.ok("build", "sci-more/1.0")
    assert installed(box, "sci-more/1.0") == installed(box, "user/more")


def installed(box: Sandbox, module: str) -> list[str]:
    """The distributions that an import finds first, each with its version."""
    program = "from importlib import metadata as m; print(*sorted({d.name: f'{d.name} {d.version}' for d in reversed([*m.distributions()])}.values()), sep=chr(10))"  # fmt: skip
    done = box.shell(f'module load {module}\npython -c "{program}"\n')
    assert (done.returncode, "einops 0.7" in done.stdout) == (0, True), done.stdout + done.stderr
    return done.stdout.splitlines()
