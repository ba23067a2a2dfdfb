"""`envmgr find` over entries, older generations, what users' environments stand on, and one's own environments."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.done import Done
from tests.helpers.pages import to_type
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.sboms import valid_cyclonedx
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

INSIDE = json.dumps(
    {
        "bomFormat": "CycloneDX",
        "components": [{"name": "zlib", "version": "1.2", "purl": "pkg:generic/zlib@1.2"}, {"name": "a\ud800"}, {}],
    }
)
BASE, ON, OLD = "sci/1.0", "plots/1.0", "hello/1.0"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[WheelBox]:
    """Generation 1 has OLD, 2 has BASE with six of conda and ON with einops of an index on it; alice has an environment."""
    box = Sandbox(tmp_path_factory.mktemp("finds"), str(channel.folder))
    box.write_site()
    made = make_wheel_box(box)
    made.house.wheel("einops", "0.7", {"einops-0.7.dist-info/sboms/inside.cdx.json": INSIDE})
    made.house.wheel("on-six", "1.0rc1", requires=["six>=1"])
    made.index(pypi=made.house.simple.as_uri())
    box.recipe(OLD, ["hello-prefix"])
    box.recipe(BASE, [f"python {PYTHON}.*", "pip", "six"], default=True)
    box.recipe(ON, [], backend="wheels", input={"python": BASE, "indexes": ["pypi"], "requirements": ["einops"]})
    box.ok("lock", OLD, BASE)
    box.ok("build", OLD)
    box.ok("build", BASE)
    box.ok("lock", ON)
    box.ok("build", ON)
    box.ok("publish", "--remove", OLD)
    box.ok("user", "create", "mine", "--on", BASE, "on-six==1.0rc1", HOME=str(box.root))
    yield made
    remove_tree(box.root / ".local")
    box.clear()


def find(scene: WheelBox, *argv: str) -> Done:
    return scene.box.run("find", *argv, HOME=str(scene.box.root))


def rows(scene: WheelBox, *argv: str) -> list[dict[str, Any]]:
    done = find(scene, *argv, "--format", "json")
    assert done.code == 1, done.stdout + done.stderr
    found: list[dict[str, Any]] = done.data["found"]
    return found


@pytest.mark.always
def test_package_of_an_entry_is_found_in_all_that_have_its_install(scene: WheelBox) -> None:
    found = {row["entry"]: row for row in rows(scene, "six<99")}
    assert {*found} == {ON, BASE}
    assert {row["install"] for row in found.values()} == {found[BASE]["install"]}
    assert found[BASE] | {"install": "", "version": "", "build": "", "held": []} == {
        "asked": "six<99",
        "compared": True,
        "entry": BASE,
        "package": "six",
        "version": "",
        "build": "",
        "ecosystem": "conda",
        "install": "",
        "generations": [2, 3, 4],
        "current": True,
        "default": True,
        "held": [],
        # ON stands on it: its own lock has no six, and is not made again.
        "rebuild": f"envmgr lock {BASE} && envmgr build {BASE} {ON}",
    }
    assert found[BASE]["held"][0].split(" (")[1].startswith("mine)")


@pytest.mark.always
def test_what_is_found_and_what_is_not_is_said_in_a_sentence(scene: WheelBox) -> None:
    done = find(scene, "six")
    lines = done.stdout.splitlines()
    assert (done.code, lines[0].split()) == (1, "entry package version of generations install".split())
    assert f"once the recipe gives another version: envmgr lock {BASE} && envmgr build {BASE} {ON}" in lines
    where = "3 entries, 4 generations, 1 environment of yours, what environments of 1 user stand on"
    assert lines[-1] == f"2 found in {where}"
    done = find(scene, "six<1", "numpy")
    assert (done.code, done.stdout) == (0, f"no six<1 and no numpy in {where}\n")


def test_removed_entry_is_found_in_its_generations_and_needs_no_rebuild(scene: WheelBox) -> None:
    (row,) = rows(scene, "Hello-Prefix")
    assert (row["entry"], row["generations"], row["current"], row["rebuild"]) == (OLD, [1, 2, 3], False, "")


def test_own_environment_is_looked_into_and_a_version_that_cannot_be_compared_is_listed(scene: WheelBox) -> None:
    (row,) = rows(scene, "On_Six<2")
    assert (row["entry"], row["compared"], row["rebuild"]) == ("user/mine", True, "envmgr user update mine")
    (row,) = rows(scene, "on-six=1")  # conda's way, which has no meaning for wheels
    assert (row["version"], row["compared"]) == ("1.0rc1", False)
    assert "1.0rc1 (cannot be compared)" in find(scene, "on-six=1").stdout


@pytest.mark.parametrize("text", ["six<", "<3", "six 1", "six<abc", "six<1;x", "", "six>>1", "six<=1.*", "six~=1.*"])
def test_bad_specifier_is_an_error(scene: WheelBox, text: str) -> None:
    done = find(scene, text)
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error[specifier-invalid]: `{text}` is no name with versions\n")


def test_install_that_cannot_be_read_is_not_counted_as_free_of_it(scene: WheelBox) -> None:
    path = next(scene.box.prefix.glob("store/hello/*.manifest.json"))
    text = path.read_text()
    for damaged in ("{}", text.replace('"build"', '"x"', 1).replace('"packages": {', '"packages": 7, "was": {', 1)):
        path.chmod(0o644)
        path.write_text(damaged)
        done = find(scene, "nothing-of-that-name")
        assert done.code == 1
        assert f"not looked at: store/hello/{path.name.removesuffix('.manifest.json')}: " in done.stdout
    path.write_text(text)
    assert find(scene, "nothing-of-that-name").code == 0


def test_what_of_users_cannot_be_read_is_not_counted_as_free_of_it(scene: WheelBox) -> None:
    (hold,) = (scene.box.prefix / "var/users").iterdir()
    text = hold.read_text()
    hold.write_text("{")
    assert f"not looked at: {hold}: " in find(scene, "nothing-of-that-name").stdout
    hold.write_text(text)
    (manifest,) = scene.box.root.glob(".local/share/envmgr/envs/.envmgr/store/user/mine-*.manifest.json")
    manifest.rename(manifest.with_name("away"))
    done = find(scene, "nothing-of-that-name")
    assert (done.code, "it is your environment mine, and its manifest is not there" in done.stdout) == (1, True)
    manifest.with_name("away").rename(manifest)
    done = find(scene, "nothing-of-that-name", ON)
    assert (done.code, done.stderr.splitlines()[-1]) == (
        0,
        f"{ON} is an entry: `envmgr sbom {ON}` lists the packages in it",
    )


def test_hint_to_the_parts_of_an_entry_that_was_removed_names_its_generation(scene: WheelBox) -> None:
    said = find(scene, OLD).stderr.splitlines()[-1]
    assert said == f"{OLD} is an entry: `envmgr sbom {OLD} --generation 3` lists the packages in it"
    assert "hello-prefix" in scene.box.ok("sbom", OLD, "--generation", "3").stdout


def test_sbom_has_licences_and_the_sboms_that_wheels_bring(scene: WheelBox, tmp_path: Path) -> None:
    box = scene.box
    done = box.ok("sbom", ON, "--format", "cyclonedx")
    data = valid_cyclonedx(done.stdout)
    parts = {each["name"]: each for each in data["components"]}
    assert data["metadata"]["component"]["bom-ref"] == ON
    assert parts["six"]["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
    (reference,) = parts["einops"]["externalReferences"]
    assert reference["url"].endswith("/einops-0.7.dist-info/sboms/inside.cdx.json")
    assert reference["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(INSIDE.encode()).hexdigest()}]
    inside = [(each["name"], each.get("purl")) for each in parts["einops"]["components"]]
    assert inside == [("a?", None), ("zlib", "pkg:generic/zlib@1.2")]
    assert box.ok("sbom", ON, "--format", "cyclonedx").stdout == done.stdout
    box.ok("sbom", ON, "--format", "cyclonedx", "-o", str(tmp_path / "x.json"))
    assert (tmp_path / "x.json").read_text() == done.stdout
    rows = {row["name"]: row for row in box.ok("sbom", ON, "--format", "json").data["parts"]}
    assert rows["six"]["needs"] == [rows["python"]["ref"]]
    assert "einops" in box.ok("sbom", ON).stdout


def test_sbom_of_a_generation_has_its_entries(scene: WheelBox) -> None:
    box = scene.box
    data = valid_cyclonedx(box.ok("sbom", "--generation", "2", "--format", "cyclonedx").stdout)
    needs = {row["ref"]: row.get("dependsOn", []) for row in data["dependencies"]}
    assert needs["sandbox/generation-2"] == [OLD, BASE]
    assert any(ref.endswith("#conda:six") for ref in needs[BASE])
    assert valid_cyclonedx(box.ok("sbom", OLD, "--generation", "1", "--format", "cyclonedx").stdout)
    for argv, reference in (
        (["sbom"], "entry-missing"),
        (["sbom", OLD], "not-published"),
        (["sbom", "--generation", "99"], "no-generation"),
    ):
        assert f"error[{reference}]" in box.run(*argv).stderr


@pytest.mark.always
def test_commands_of_the_page(scene: WheelBox) -> None:
    for block in to_type("docs/find.md"):
        for step in block.steps:
            words = shlex.split(step.command)
            assert words[0] == "envmgr"
            done = scene.box.run(*(each.replace("pydata/1.0", ON) for each in words[1:]), HOME=str(scene.box.root))
            assert done.code == (1 if step.output else 0), done.stdout + done.stderr
