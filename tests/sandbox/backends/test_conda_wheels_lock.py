"""`pip:` beside `specs:` of a conda recipe: what conda brings is a constraint, and the wheels have a lock of their own."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from envmgr.backends.conda.lockfile import read_lock
from envmgr.wheels.lockfile import WHEELS_LOCK, LockedRow, read_wheels
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "both/1.0"
SPECS = [f"python {PYTHON}.*", "six", "packaging 24.2.*"]


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


def rows(folder: Path) -> dict[str, LockedRow]:
    """The rows of the wheels by name."""
    return {row.name: row for row in read_wheels((folder / WHEELS_LOCK).read_text(), "it")[0].rows}


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_wheels_have_a_lock_beside_condas_and_what_conda_has_is_not_in_it(scene: WheelBox) -> None:
    one = scene.house.wheel("one", requires=["six>=1.10", "two; python_version>='3'", "three; sys_platform=='win32'"])
    two = scene.house.wheel("two", requires=["packaging"])
    scene.house.wheel("six", "1.99")
    scene.house.wheel("packaging", "24.2", requires=["never"])  # as the index has it; conda's needs nothing of an index
    folder = scene.conda(ENTRY, SPECS, "one")
    done = scene.box.ok("lock", ENTRY)
    digest = read_lock(folder)[0].recipe_digest
    python = next(p.version for p in read_lock(folder)[0].packages if p.name == "python")
    text = (folder / WHEELS_LOCK).read_text()
    assert (
        text
        == f"""\
# Written by envmgr; pip and uv read it. Lock again instead of editing.
# recipe: {digest}
# python: {python}
# platform: x86_64-manylinux_2_28
# indexes: house
# files: 2, {one.stat().st_size + two.stat().st_size} bytes
one==1.0 --hash=sha256:{sha256(one)}
two==1.0 --hash=sha256:{sha256(two)}
"""
    )
    assert "one" not in {item["name"] for item in yaml.safe_load((folder / "conda-lock.yml").read_text())["package"]}
    note = "wheels need what these packages of conda should bring: packaging 24.2, six 1.17.0; the build fails"
    assert note in " ".join((done.stdout + done.stderr).split())
    assert scene.box.ok("lock", ENTRY).stdout.startswith(f"{ENTRY}: unchanged ")
    assert scene.box.run("lock", "--check", ENTRY).code == 0
    assert scene.box.ok("list", ENTRY, "--format", "json").data["packages"]["one"] == f"1.0 {sha256(one)[:8]}"


def test_lock_whose_wheels_are_missing_or_of_another_recipe_is_not_used(scene: WheelBox) -> None:
    scene.house.wheel("one")
    folder = scene.conda(ENTRY, SPECS, "one")
    scene.box.ok("lock", ENTRY)
    lock = folder / WHEELS_LOCK
    text = lock.read_text()
    lock.unlink()
    assert scene.refused("build", ENTRY).stderr.startswith(f"error[lock-missing]: {ENTRY} has no lock\n  {lock}\n")
    for line in ("recipe", "python"):
        lock.write_text(re.sub(f"# {line}: .", f"# {line}: 4", text))
        told = scene.refused("build", ENTRY).stderr
        assert told.startswith(f"error[lock-stale]: {lock} does not match recipe.yaml\n"), told
    scene.conda(ENTRY, SPECS)
    assert "  note: removed wheels.lock: the lock has no such part any more\n" in scene.box.ok("lock", ENTRY).stdout
    assert not lock.exists()


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
    sums = {
        tag: sha256(scene.house.wheel("chosen", tag=f"{minor}-{minor}-manylinux_{tag}_x86_64"))
        for tag in ("2_34", "2_28", "2_17")
    }
    for glibc, tag in (("2.17", "2_17"), ("2.27", "2_17"), ("2.28", "2_28"), ("2.34", "2_34"), ("2.45 0", "2_34")):
        folder = scene.conda(ENTRY, SPECS, "chosen", virtual_packages={"__glibc": glibc})
        scene.box.ok("lock", ENTRY)
        assert rows(folder)["chosen"].sha256 == sums[tag], glibc


def test_extra_of_what_conda_has_is_told(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.conda(ENTRY, SPECS, "one", "six[more]")
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
    assert rows(folder)["one"].version == "1.0"


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
    text = (folder / WHEELS_LOCK).read_text()
    scene.index(house="http://127.0.0.1:9/simple")
    scene.box.ok("lock", ENTRY, "--index", f"house={scene.house.files}")
    assert (folder / WHEELS_LOCK).read_text() == text


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
    needs = {"nvidia_driver": "525.60.13", "glibc": "2.28"}
    for requires, fault in (
        (needs, ""),
        ({**needs, "nvidia_driver": "470.1"}, "requires.nvidia_driver: CUDA 12.1 needs >= 525.60.13"),
        ({**needs, "glibc": "2.17"}, "requires.glibc: the wheels need >= 2.28"),
    ):
        (folder / "recipe.yaml").write_text(json.dumps({**recipe, "requires": requires}))
        locked = scene.box.run("lock", ENTRY)
        assert (locked.code, fault in locked.stderr) == (2 if fault else 0, True), locked.stderr
        checked = scene.box.run("lock", "--check", ENTRY)
        assert (checked.code, fault in checked.stdout) == (1 if fault else 0, True), checked.stdout
