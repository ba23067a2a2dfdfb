"""A user's environment as an entry of the site's catalog: the very packages, and the administrator solves nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
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
    box.recipe(ENTRY, SPECS, help="For science.", default=True, tests=[{"name": "import sci", "run": "true"}])
    box.ok("lock", ENTRY)
    box.ok("build", ENTRY)
    yield made
    remove_tree(box.root / ".local")
    box.clear()


def run(box: Sandbox, *argv: str) -> Done:
    return box.run("user", *argv, HOME=str(box.root))


def user(box: Sandbox, *argv: str) -> dict[str, Any]:
    done = run(box, *argv, "--format", "json")
    assert done.code == 0, done.stdout + done.stderr
    return done.data


def refused(box: Sandbox, reference: str, *argv: str) -> str:
    before = sorted(box.root.iterdir())
    done = run(box, "request", *argv)
    assert (done.code, f"error[{reference}]" in done.stderr) == (2, True), done.stdout + done.stderr
    assert sorted(box.root.iterdir()) == before
    return done.stderr


def merged(box: Sandbox, name: str, *argv: str) -> Path:
    """Request an environment, and do as an administrator what the request says."""
    made = user(box, "request", name, *argv)
    folder = box.root / made["folder"]
    text = (folder / "REQUEST.md").read_text()
    everything = "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    assert ".local" not in everything
    commands = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert commands[0] == f"cp -r {made['entry'].partition('/')[0]} {box.root}/recipes"
    subprocess.run(commands[0].split(), cwd=folder, check=True)
    recipe = box.root / "recipes" / made["entry"]
    before = {path: path.read_bytes() for path in recipe.iterdir()}
    for command in commands[1:]:
        done = box.ok(*command.split()[1:])
    assert "0 errors, 0 warnings" in box.ok("catalog", "check", made["entry"]).stdout
    assert {path: path.read_bytes() for path in recipe.iterdir()} == before
    assert f"published {made['entry']}" in done.stdout
    assert installed(box, made["entry"]) == installed(box, f"user/{name}")
    shutil.rmtree(folder)
    return recipe


def installed(box: Sandbox, module: str) -> list[str]:
    """The distributions that an import finds, each with its version."""
    program = "from importlib import metadata as m; print(*sorted({d.name: f'{d.name} {d.version}' for d in reversed([*m.distributions()])}.values()), sep=chr(10))"  # fmt: skip
    done = box.shell(f'module load {module}\npython -c "{program}"\n')
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def wheels_of(box: Sandbox, name: str) -> dict[str, str]:
    run(box, "export", name, "--output", str(box.root / "lock.toml"))
    packages = tomllib.loads((box.root / "lock.toml").read_text())["packages"]
    (box.root / "lock.toml").unlink()
    return {each["name"]: each["wheels"][0]["hashes"]["sha256"] for each in packages}


def conda_sums(folder: Path) -> dict[tuple[str, str], str]:
    lock = parse_yaml((folder / "conda-lock.yml").read_text(), "lock", most=1 << 20)
    return {(each["manager"], each["name"]): each["hash"]["sha256"] for each in lock["package"]}


def test_entry_on_conda_has_the_very_packages_of_both_and_the_index_has_newer_ones(scene: WheelBox) -> None:
    box = scene.box
    user(box, "create", "mine", "--on", ENTRY, "on-six", "einops>=0.5")
    scene.house.wheel("einops", "0.8")
    scene.index(pypi=scene.house.simple.as_uri())
    try:
        folder = merged(box, "mine", "--why", "plots of https://me:secret@host.invalid/x")
        assert folder == box.root / "recipes/sci-mine/1.0"
        theirs = {("pip", name): sha256 for name, sha256 in wheels_of(box, "mine").items()}
        assert conda_sums(folder) == conda_sums(box.root / "recipes" / ENTRY) | theirs
        recipe = parse_yaml((folder / "recipe.yaml").read_text(), "recipe")
        assert recipe["input"]["pip"] == ["on-six", "einops>=0.5"]
        assert recipe["tests"] == [
            {"name": "import sci", "run": "true"},
            {"name": "import einops, on_six", "run": "python -c 'import einops, on_six'"},
        ]
        assert (recipe["help"], "default" in recipe) == ("For science.", False)
    finally:
        (scene.house.files / "einops-0.8-py3-none-any.whl").unlink()
        scene.house.write()


def test_request_says_who_what_for_and_each_sum(scene: WheelBox) -> None:
    box = scene.box
    user(box, "create", "said", "--on", ENTRY, "einops", "--editable", str(box.root / "recipes"))
    made = user(box, "request", "said", "--as", "sci/2.0", "--why", "see https://me:secret@host.invalid/x", "-o", "ask")
    assert (made["entry"], made["left_out"]) == ("sci/2.0", [str(box.root / "recipes")])
    assert made["files"] == ["sci/software.yaml", "sci/2.0/recipe.yaml", "sci/2.0/conda-lock.records.json", "sci/2.0/conda-lock.yml", "REQUEST.md"]  # fmt: skip
    text = (box.root / "ask/REQUEST.md").read_text()
    assert text.startswith(
        "# Add sci/2.0\n\nroot asks the administrators of sandbox for an entry: sci/1.0 with 1 package more.\n\n"
        "see https://***@host.invalid/x\n\n- below: sci/1.0, `store/sci/1.0-"
    )
    assert f"| einops | 0.7 |  |  | `einops-0.7-py3-none-any.whl` | `{made['packages'][0]['sha256']}` |\n" in text  # fmt: skip
    assert "- left out, because no lock holds a folder: recipes\n" in text
    # All versions of a name share it: a copy changes nothing.
    assert (box.root / "ask/sci/software.yaml").read_bytes() == (box.root / "recipes/sci/software.yaml").read_bytes()
    shutil.rmtree(box.root / "ask")


@pytest.mark.parametrize("gone", [False, True])
def test_published_lock_counts_when_the_catalog_has_another_one_or_none(scene: WheelBox, gone: bool) -> None:
    box, catalog = scene.box, scene.box.root / "recipes"
    name = "gone" if gone else "moved"
    user(box, "create", name, "--on", ENTRY, "einops")
    sums = conda_sums(catalog / ENTRY)
    shutil.copytree(catalog / "sci", box.root / "kept")
    if gone:
        shutil.rmtree(catalog / "sci")
    else:
        box.recipe(ENTRY, [*SPECS, "tabulate"])
        box.ok("lock", ENTRY)
    try:
        folder = merged(box, name)
        assert conda_sums(folder) == sums | {("pip", "einops"): wheels_of(box, name)["einops"]}
    finally:
        shutil.rmtree(catalog / "sci", ignore_errors=True)
        (box.root / "kept").rename(catalog / "sci")


def test_entry_of_wheels_has_the_users_in_the_place_of_those_that_she_replaced(scene: WheelBox) -> None:
    box, house = scene.box, scene.house
    scene.index(pypi=house.simple.as_uri(), house=house.simple.as_uri())
    house.wheel("plain", "1.0")
    house.wheel("with-more", requires=["einops; extra == 'more'"])
    given = {"requirements": "requirements.txt", "constraints": ["plain==1.*"]}
    folder = scene.entry("over/1.0", python=scene.base("six"), indexes=["house"], **given)
    (folder / "requirements.txt").write_text("plain<2\nwith-more\n")
    box.ok("lock", "over/1.0")
    box.ok("build", "over/1.0")
    house.wheel("plain", "2.0")
    house.wheel("on-plain", requires=["plain>=2"])
    user(box, "create", "wheels", "--on", "over/1.0", "on-plain", "with-more[more]", "--replace", "plain")
    folder = merged(box, "wheels")
    lock = json.loads((folder / "wheels.lock.json").read_text())
    own = {each["name"]: each["sha256"] for each in lock["wheels"]}
    assert own.keys() == {"plain", "with-more", "on-plain", "einops"}
    assert own.items() >= wheels_of(box, "wheels").items()
    said = parse_yaml((folder / "recipe.yaml").read_text(), "recipe")["input"]
    assert said["requirements"] == ["with-more", "on-plain", "with-more[more]", "plain"]
    assert "constraints" not in said
    # The catalog moves on, and has another file of requirements, too: the manifest keeps both.
    house.wheel("with-more", "2.0")
    below = box.root / "recipes/over/1.0"
    (below / "requirements.txt").write_text("with-more\n")
    box.ok("lock", "over/1.0")
    folder = merged(box, "wheels", "--as", "over/2.0")
    lock = json.loads((folder / "wheels.lock.json").read_text())
    assert {each["name"]: each["sha256"] for each in lock["wheels"]} == own
    (house.files / "with_more-2.0-py3-none-any.whl").unlink()
    house.write()


def test_install_that_nothing_says_the_lock_of_is_told_with_the_way_out(scene: WheelBox) -> None:
    box, catalog = scene.box, scene.box.root / "recipes/sci"
    user(box, "create", "unknown", "--on", ENTRY, "einops")
    (manifest,) = box.prefix.glob("store/sci/1.0-*.manifest.json")
    for path in (catalog, manifest):
        path.rename(box.root / path.name)
    try:
        assert "`envmgr user update unknown --rebase`" in refused(box, "not-requestable", "unknown")
    finally:
        for path in (catalog, manifest):
            (box.root / path.name).rename(path)


def test_wheels_beside_conda_packages_and_those_that_replace_them(scene: WheelBox) -> None:
    box, house = scene.box, scene.house
    scene.index(pypi=house.simple.as_uri(), house=house.simple.as_uri())
    house.wheel("beside", "1.0", requires=["six"])
    scene.conda("both/1.0", SPECS, "beside<2")
    box.ok("lock", "both/1.0")
    box.ok("build", "both/1.0")
    house.wheel("beside", "2.0", requires=["six"])
    user(box, "create", "both", "--on", "both/1.0", "beside>=2", "einops", "--replace", "beside")
    folder = merged(box, "both")
    assert parse_yaml((folder / "recipe.yaml").read_text(), "recipe")["input"]["pip"] == ["beside>=2", "einops"]
    house.wheel("six", "99.0")
    user(box, "create", "sixes", "--on", "both/1.0", "--replace", "six")
    assert "six comes as a package of conda's" in refused(box, "not-requestable", "sixes")
    house.wheel("breaks", requires=["beside<2"])
    scene.conda("breaks/1.0", SPECS, "breaks")
    box.ok("lock", "breaks/1.0")
    box.ok("build", "breaks/1.0")
    user(box, "create", "broken", "--on", "breaks/1.0", "beside>=2", "--replace", "beside")
    assert "breaks 1.0 needs `beside<2`, the lock has beside 2.0" in refused(box, "not-requestable", "broken")


def test_bad_input_leaves_nothing(scene: WheelBox) -> None:
    box = scene.box
    user(box, "create", "bad", "--on", ENTRY, "einops")
    user(box, "create", "empty", "--on", ENTRY, "six", "--editable", str(box.root))
    (box.root / "taken").mkdir(exist_ok=True)
    (box.root / "taken/file").touch()
    refused(box, "no-environment", "nobody")
    refused(box, "nothing-to-request", "empty")
    refused(box, "entry-exists", "bad", "--as", ENTRY)
    refused(box, "entry-syntax", "bad", "--as", "sci")
    refused(box, "place-taken", "bad", "--output", "taken")
    refused(box, "place-taken", "bad", "--output", "taken/file")
    refused(box, "entry-clash", "bad", "--as", "user/1.0")
    refused(box, "entry-clash", "bad", "--as", "SCI/2.0")
    (box.root / "empty").mkdir()
    (box.root / "link").symlink_to("empty")
    refused(box, "place-taken", "bad", "--output", "link")
    before = sorted(box.root.iterdir())
    assert run(box, "request", "bad", "--output", "missing/x").code == 3
    assert run(box, "request", "bad", "--output", "/proc/x").code == 3
    said = run(box, "request", "bad", "--dry-run").stdout
    assert "would write request-bad: sci-bad/1.0, with the packages of sci/1.0 and these\n" in said
    assert sorted(box.root.iterdir()) == before
