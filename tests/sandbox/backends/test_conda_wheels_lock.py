"""`pip:` beside `specs:` of a conda recipe: what conda brings is a constraint, and the lock is one that conda-lock reads."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from envmgr.backends.conda.solve import find_conda_lock
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "both/1.0"
SPECS = [f"python {PYTHON}.*", "six", "packaging 24.2.*"]


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


def items(folder: Path) -> dict[str, dict[str, Any]]:
    """The items with `manager: pip` by name."""
    data = yaml.safe_load((folder / "conda-lock.yml").read_text())
    return {item["name"]: item for item in data["package"] if item["manager"] == "pip"}


def test_wheels_are_items_of_the_lock_and_what_conda_has_is_not_among_them(scene: WheelBox) -> None:
    wheel = scene.house.wheel("one", requires=["six>=1.10", "two; python_version>='3'", "three; sys_platform=='win32'"])
    scene.house.wheel("two", requires=["packaging"])
    scene.house.wheel("six", "1.99")
    scene.house.wheel("packaging", "24.2", requires=["never"])  # as the index has it; conda's needs nothing of an index
    folder = scene.conda(ENTRY, SPECS, "one")
    done = scene.box.ok("lock", ENTRY)
    found = items(folder)
    assert sorted(found) == ["one", "two"]
    assert found["one"] == {
        "name": "one",
        "version": "1.0",
        "manager": "pip",
        "platform": "linux-64",
        "dependencies": {"six": ">=1.10", "two": "*"},
        "url": "index:house/one-1.0-py3-none-any.whl",
        "hash": {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()},
        "category": "main",
        "optional": False,
    }
    note = "wheels need what these packages of conda should bring: packaging 24.2, six 1.17.0; the build fails"
    assert note in " ".join((done.stdout + done.stderr).split())
    sidecar = json.loads((folder / "conda-lock.records.json").read_text())["added"]
    assert sidecar["assumed"] == {"packaging": "packaging 24.2", "six": "six 1.17.0"}
    assert (sidecar["platform"], sidecar["wheels"][0]["index"]) == ("x86_64-manylinux_2_28", "house")
    assert scene.house.simple.as_uri() not in (folder / "conda-lock.yml").read_text()
    text = (folder / "conda-lock.yml").read_text()
    scene.box.ok("lock", ENTRY)
    assert (folder / "conda-lock.yml").read_text() == text
    assert scene.box.run("lock", "--check", ENTRY).code == 0
    assert scene.box.ok("list", ENTRY, "--format", "json").data["packages"]["one"] == "1.0 py3-none-any"


def test_what_conda_has_and_wheels_need_otherwise_is_uvs_conflict(scene: WheelBox) -> None:
    scene.house.wheel("one", requires=["packaging>=25"])
    scene.house.wheel("packaging", "25.0")
    scene.conda(ENTRY, SPECS, "one")
    told = scene.refused("lock", ENTRY).stderr
    assert told.startswith("error[unsolvable]: the requirements have no solution in wheels\n"), told
    assert "packaging==24.2+conda" in told
    assert "hint: `+conda` marks what conda's packages bring, which wheels never replace" in told


def test_wheels_are_for_the_glibc_of_the_recipe_and_never_of_this_host(scene: WheelBox) -> None:
    minor = f"cp{PYTHON.replace('.', '')}"
    for tag in ("manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux_2_17_x86_64"):
        scene.house.wheel("chosen", tag=f"{minor}-{minor}-{tag}")
    for glibc, tag in (("2.17", "2_17"), ("2.27", "2_17"), ("2.28", "2_28"), ("2.34", "2_34"), ("2.45 0", "2_34")):
        folder = scene.conda(ENTRY, SPECS, "chosen", virtual_packages={"__glibc": glibc})
        scene.box.ok("lock", ENTRY)
        assert items(folder)["chosen"]["url"].endswith(f"-manylinux_{tag}_x86_64.whl"), glibc


def test_extra_of_what_conda_has_is_told(scene: WheelBox) -> None:
    scene.house.wheel("one", requires=["six[more]"])
    scene.conda(ENTRY, SPECS, "one")
    done = scene.box.ok("lock", ENTRY)
    assert (
        "six is conda's, and what its extra `more` needs is not added: name that in `pip`" in done.stdout + done.stderr
    )


def test_date_holds_for_wheels_and_not_for_what_conda_has(scene: WheelBox) -> None:
    scene.house.wheel("one", "1.0", requires=["six"])
    scene.house.wheel("one", "2.0", uploaded="2025-06-01T00:00:00Z")
    folder = scene.conda(ENTRY, SPECS, "one", exclude_newer="2025-01-01")
    with scene.served():
        scene.box.ok("lock", ENTRY)
    assert items(folder)["one"]["version"] == "1.0"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"pip": ["git+https://example.org/x.git"]}, "input.pip: `git+https://example.org/x.git` names a place"),
        ({"pip": ["x @ https://example.org/x.whl"]}, "names a place, whose content no lock holds to a sha256"),
        ({"pip": ["-e ."]}, "input.pip: `-e .`: a checkout or a folder has no sha256"),
        ({"pip": ["one"], "platform": "linux-ppc64le"}, "input.pip: there are no wheels for linux-ppc64le"),
        ({"pip": ["one"], "virtual_packages": {"__glibc": "2.12"}}, "input.pip: wheels need `__glibc` 2.17 or newer"),
        ({"pip": [], "indexes": ["house"]}, "input.indexes: it is for the wheels that `pip` asks for"),
        ({"pip": [], "exclude_newer": "2025-01-01"}, "input.exclude_newer: it is for the wheels that `pip` asks for"),
    ],
    ids=["git", "url", "editable", "platform", "glibc", "indexes", "date"],
)
def test_inputs_that_are_refused(scene: WheelBox, given: dict[str, Any], told: str) -> None:
    scene.box.recipe(ENTRY, [], input={"channels": ["standin"], "specs": SPECS, **given})
    said = scene.refused("lock", ENTRY).stderr
    assert said.startswith(f"error[recipe-invalid]: the conda input of {ENTRY} has faults\n")
    assert told in said


def test_index_that_the_site_does_not_have_is_told_by_catalog_check(scene: WheelBox) -> None:
    scene.conda(ENTRY, SPECS, "one", indexes=["hause"])
    assert "input.indexes: the site has no index `hause`" in scene.box.run("check").stdout
    assert scene.refused("lock", ENTRY).stderr.startswith("error[unknown-index]: the site has no index `hause`\n")


def test_wheels_without_a_python_are_refused(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.conda(ENTRY, ["hello-prefix"], "one")
    told = scene.refused("lock", ENTRY).stderr
    assert told.startswith("error[pip-without-python]: wheels need a CPython among conda's packages\n")


def test_place_of_an_index_once(scene: WheelBox) -> None:
    scene.house.wheel("one")
    folder = scene.conda(ENTRY, SPECS, "one")
    scene.box.ok("lock", ENTRY)
    text = (folder / "conda-lock.yml").read_text()
    scene.index(house="http://127.0.0.1:9/simple")
    scene.box.ok("lock", ENTRY, "--index", f"house={scene.house.files}")
    assert (folder / "conda-lock.yml").read_text() == text
    scene.box.settings["channels"] = {"house": {"url": "http://channel.invalid/standin", "mirrors": [scene.box.mirror]}}
    scene.index(house=scene.house.simple.as_uri())
    scene.conda(ENTRY, SPECS, "one", channels=["house"])
    told = scene.refused("lock", ENTRY, "--index", f"house={scene.house.files}").stderr
    assert told.startswith("error[bad-channel]: `house` is a channel and an index of this recipe")


def test_two_cudas_of_conda_and_of_wheels_are_refused(scene: WheelBox) -> None:
    scene.house.wheel("nvidia-cuda-runtime-cu12", "12.1.105")
    scene.conda(ENTRY, [*SPECS, "cuda-version 11.8.*"], "nvidia-cuda-runtime-cu12", virtual_packages={"__cuda": "11.8"})
    told = scene.refused("lock", ENTRY).stderr
    assert "error[lock-contradicts]: " in told
    assert "  cuda-majors: CUDA 11: cuda-version 11.8; CUDA 12: nvidia-cuda-runtime-cu12 12.1.105 (wheel)\n" in told


def test_needs_of_a_node_follow_from_the_wheels(scene: WheelBox) -> None:
    scene.house.wheel("nvidia-cuda-runtime-cu12", "12.1.105", tag="py3-none-manylinux_2_17_x86_64")
    folder = scene.conda(ENTRY, SPECS, "nvidia-cuda-runtime-cu12")
    assert "which needs a driver >= 525.60.13" in scene.refused("lock", ENTRY).stderr
    recipe = json.loads((folder / "recipe.yaml").read_text())
    needs = {"nvidia_driver": "525.60.13", "glibc": "2.17"}
    (folder / "recipe.yaml").write_text(json.dumps({**recipe, "requires": needs}))
    scene.box.ok("lock", ENTRY)
    for requires, fault in (
        ({"nvidia_driver": "470.1"}, "requires.nvidia_driver: CUDA 12.1 needs >= 525.60.13"),
        ({"nvidia_driver": "525.60.13", "glibc": "2.12"}, "requires.glibc: the wheels need >= 2.17"),
        ({"nvidia_driver": "525.60.13", "glibc": "2.17"}, ""),
    ):
        (folder / "recipe.yaml").write_text(json.dumps({**recipe, "requires": requires}))
        checked = scene.box.run("lock", "--check", ENTRY)
        assert (checked.code, fault in checked.stdout) == (1 if fault else 0, True), checked.stdout


# conda-lock's own parser; its models are v2 after that.
PARSE = """\
import json, pathlib, sys
from conda_lock.lockfile import parse_conda_lock_file
found = parse_conda_lock_file(pathlib.Path(sys.argv[1]))
print(json.dumps([[p.manager, p.name, p.version, p.url, p.hash.sha256, sorted(p.dependencies)] for p in found.package]))
"""


def test_conda_lock_reads_and_renders_it(scene: WheelBox, tmp_path: Path) -> None:
    scene.house.wheel("one", requires=["two", "six"])
    scene.house.wheel("two")
    folder = scene.conda(ENTRY, SPECS, "one")
    scene.box.ok("lock", ENTRY)
    lock = folder / "conda-lock.yml"
    told = subprocess.run([sys.executable, "-c", PARSE, lock], capture_output=True, text=True, check=True).stdout
    found = [row for row in json.loads(told) if row[0] == "pip"]
    own = items(folder)
    assert found == [
        ["pip", name, "1.0", own[name]["url"], own[name]["hash"]["sha256"], needs]
        for name, needs in (("two", []), ("one", ["six", "two"]))
    ]
    subprocess.run(
        [find_conda_lock(), "render", "--kind", "env", "-p", "linux-64", lock],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    rendered = yaml.safe_load((tmp_path / "conda-linux-64.lock.yml").read_text())
    assert rendered["dependencies"][-1] == {
        "pip": [f"{name} == 1.0 --hash=sha256:{own[name]['hash']['sha256']}" for name in ("one", "two")]
    }
    subprocess.run(
        [find_conda_lock(), "render", "--kind", "explicit", "-p", "linux-64", lock],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    explicit = (tmp_path / "conda-linux-64.lock").read_text().splitlines()
    assert f"# pip one @ {own['one']['url']}#sha256={own['one']['hash']['sha256']}" in explicit
