"""One bad entry is told, and ends the check of no other: requirements, specs and locks without end, and what no library was written for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.sandbox import Sandbox

DEEP = "a; " + "(" * 2_000 + "os_name == 'x'" + ")" * 2_000


def wheels(box: Sandbox, entry: str, **given: object) -> Path:
    return box.recipe(entry, [], backend="wheels", input={"python": "system/3.11", **given})


@pytest.fixture
def scene(sandbox: Sandbox) -> Sandbox:
    sandbox.recipe("zzz/1.0", ["hello-prefix"])
    sandbox.ok("lock", "zzz/1.0")
    return sandbox


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"requirements": [DEEP]}, "input.requirements: `a; ((("),
        ({"requirements": ["a"] * 6_000}, "more than 5000 requirements"),
        ({"requirements": ["a"], "constraints": ["a; 'x' in extras"]}, "there is no 'extras'"),
    ],
)
def test_requirement_without_end(scene: Sandbox, given: dict[str, object], told: str) -> None:
    wheels(scene, "aaa/1.0", **given)
    done = scene.run("check")
    assert done.code == 1
    assert told in done.stdout
    assert "Traceback" not in done.stderr
    assert "2 recipes" in done.stdout or "zzz/1.0" in done.stdout


@pytest.mark.parametrize(
    "spec",
    [
        "https://evil.example/x-1-0.conda",
        "evil::x",
        "x[md5=00]",
        "x[url=http://evil]",
        "/tmp/x-1-0.tar.bz2",
        "x-1-0.conda",
        "x; if linux",
        "x 1 " + "(" * 400,
        "x\tevil",
    ],
)
def test_spec_that_says_more_than_name_version_and_build(scene: Sandbox, spec: str) -> None:
    scene.recipe("aaa/1.0", [spec])
    done = scene.run("check", "aaa/1.0")
    assert done.code == 1
    assert "write `name [version [build]]`" in done.stdout


def test_channels_that_the_site_does_not_know_are_named(scene: Sandbox) -> None:
    urls = ["file:///tmp/evil", "http://evil.example"]
    scene.recipe("aaa/1.0", [], input={"channels": ["standin", *urls], "specs": ["hello-prefix"]})
    done = scene.run("check", "aaa/1.0", "--format", "json")
    found = [row for row in done.data["findings"] if "input.channels" in row["found"]]
    assert [(row["severity"], row["found"].partition("recipe.yaml: ")[2]) for row in found] == [
        ("warning", f"input.channels: `{url}` is a URL: the site has no channel of that name") for url in urls
    ]


def test_lock_that_no_library_was_written_for(scene: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a reader raises: here a record whose licence is a list, and one that is none."""
    folder = scene.recipe("aaa/1.0", ["hello-prefix"])
    scene.ok("lock", "aaa/1.0")
    sidecar = folder / "conda-lock.records.json"
    good = json.loads(sidecar.read_text())
    for record in ({"license": ["MIT"]}, {"a": 1}, []):
        bad = {**good, "packages": {"hello-prefix": record}}
        sidecar.write_text(json.dumps(bad))
        done = scene.run("check")
        assert done.code == 1
        assert "lacks or misnames a field" in done.stdout
        checked = scene.run("lock", "--check", "--all")
        assert checked.code == 1
        assert "zzz/1.0: fresh" in checked.stdout


def test_recipe_that_cannot_be_read_does_not_end_the_check_of_locks(scene: Sandbox) -> None:
    folder = scene.recipe("aaa/1.0", ["hello-prefix"])
    (folder / "recipe.yaml").write_text("backend: [\n")
    done = scene.run("lock", "--check", "--all")
    assert done.code == 1
    assert "aaa/1.0: faulty" in done.stdout
    assert "zzz/1.0: fresh" in done.stdout


@pytest.mark.parametrize(
    "given",
    [
        {"requirements": ["a; os_name ~= 'x'"]},
        {"requirements": ["a"], "platform": f"x86_64-manylinux_2_{'9' * 5_000}"},
        {"requirements": ["a"], "python": f"system/3.{'9' * 5_000}"},
    ],
    ids=["marker", "platform", "python"],
)
def test_lock_goes_on_beside_what_no_library_can_evaluate(scene: Sandbox, given: dict[str, object]) -> None:
    wheels(scene, "aaa/1.0", **given)
    (scene.root / "recipes/zzz/1.0/conda-lock.yml").unlink()
    done = scene.run("lock", "--all")
    assert done.code == 2, done.stdout + done.stderr
    assert done.stderr.startswith("error[recipe-invalid]: the wheels input of aaa/1.0 has faults\n"), done.stderr
    assert "written: zzz/1.0" in done.stderr
