"""The shipped easyconfigs: every source has upstream's sha256, recipes and easyconfigs agree, twins differ in no other line."""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.easybuild.settings import EasyBuildInput
from envmgr.catalog.gpus import minimum_driver
from envmgr.catalog.recipe import Recipe, load_recipe, load_software
from envmgr.system.files import shipped
from tests.helpers.easybuild.debian_sources import SOURCES
from tests.helpers.easybuild.vendor_installers import add_standins, read_easyconfig
from tests.helpers.places import TESTS

ROOT = shipped("easyconfigs")
TWINS = TESTS / "easyconfigs"
SHIPPED = sorted(ROOT.glob("?/*/*.eb"))
RECIPES = {
    f"{path.parent.parent.name}/{path.parent.name}": recipe
    for path in sorted(shipped("recipes").glob("*/*/recipe.yaml"))
    if (recipe := load_recipe(path)).backend == "easybuild" and recipe.input["easyconfig"] in {p.name for p in SHIPPED}
}
"""Without those of EasyBuild's own easyconfigs, such as Horovod."""
FAMILIES = {"anaconda": "python", "cuda": "cuda", "mpich": "mpi", "openmpi": "mpi", "python": "python"}

every_easyconfig = pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
every_recipe = pytest.mark.parametrize("entry", RECIPES)


def of_entry(entry: str) -> tuple[Recipe, EasyBuildInput, dict[str, Any]]:
    recipe = RECIPES[entry]
    wanted = EasyBuildInput.model_validate(recipe.input)
    (path,) = (p for p in SHIPPED if p.name == wanted.easyconfig)
    return recipe, wanted, read_easyconfig(path)


def test_what_the_issue_asks_for_is_there() -> None:
    names = {
        "anaconda/2023.09",
        "anaconda/2025.06",
        "bzip2/1.0",
        "cuda/11.8",
        "mpich/4.3",
        "openmpi/4.1",
        "python/3.11",
    }

    assert names | {"python/3.13", "zlib/1.3", "cuda/12.9"} <= set(RECIPES)
    assert of_entry("python/3.11")[2]["version"] == "3.11.2"
    assert "--with-slurm" in of_entry("openmpi/4.1")[2]["configopts"]


@every_easyconfig
def test_easyconfig_lies_where_easybuild_looks_for_it(path: Path) -> None:
    said = read_easyconfig(path)

    assert path.relative_to(ROOT) == Path(said["name"][0].lower(), said["name"], f"{said['name']}-{said['version']}.eb")
    assert said["toolchain"] == {"name": "system", "version": "system"}
    assert said["homepage"].startswith("https://")
    assert said["easyblock"]
    assert said["moduleclass"]
    assert "dependencies" not in said  # those of the operating system are named instead


@every_easyconfig
def test_easyconfig_has_one_sha256_and_https_urls_for_every_source(path: Path) -> None:
    said = read_easyconfig(path)

    parts = [(said["sources"], said), *((["sdist"], extension[2]) for extension in said.get("exts_list", []))]
    for sources, where in parts:
        assert len(where["checksums"]) == len(sources)
        assert all(re.fullmatch(r"[0-9a-f]{64}", c) for c in where["checksums"])
        assert where["source_urls"]
        assert all(url.startswith("https://") and url.endswith("/") for url in where["source_urls"])


@every_easyconfig
def test_packages_of_the_operating_system_are_named_for_rocky_and_debian(path: Path) -> None:
    said = read_easyconfig(path)
    packages = said.get("osdependencies", [])

    assert all(isinstance(p, tuple) for p in packages)
    assert [p for p in packages if p[0].endswith("-devel") and not p[1].endswith("-dev")] == []
    assert bool(packages) == (
        said["name"] not in {"Anaconda3", "CUDA", "TensorRT"}
    )  # compiled ones need at least a compiler


@every_easyconfig
def test_sha256_is_the_one_that_easybuilds_own_easyconfigs_have(path: Path) -> None:
    folder = Path(sys.prefix) / "easybuild/easyconfigs"  # of the version that the project depends on
    said = read_easyconfig(path)
    theirs = "".join(p.read_text() for p in folder.joinpath(path.parent.relative_to(ROOT)).glob("*.eb"))
    ours = [*said["checksums"], *(c for e in said.get("exts_list", []) for c in e[2]["checksums"])]
    assert [c for c in ours if c not in theirs] == []


@every_recipe
def test_recipe_names_a_shipped_easyconfig_of_its_version(entry: str) -> None:
    recipe, wanted, said = of_entry(entry)
    name, version = entry.split("/")

    assert said["name"].lower().removesuffix("3") == name.removesuffix("3")
    assert re.match(rf"{re.escape(version)}[.-]", said["version"])
    assert wanted.rpath is False
    assert wanted.unhashed == {}
    assert recipe.families == ((FAMILIES[name],) if name in FAMILIES else None)


def test_every_shipped_easyconfig_is_some_recipes() -> None:
    assert {RECIPES[e].input["easyconfig"] for e in RECIPES} == {p.name for p in SHIPPED}


@every_recipe
def test_licences_are_acknowledged_where_there_is_one(entry: str) -> None:
    _, wanted, said = of_entry(entry)
    asked = load_software(shipped("recipes") / entry.split("/", maxsplit=1)[0] / "software.yaml").acknowledge
    licences = {"CUDA": "cuda-eula", "Anaconda3": "anaconda-terms", "TensorRT": "tensorrt-eula"}

    assert asked == licences.get(said["name"], "")
    assert wanted.accept_eula == (("CUDA",) if said["name"] == "CUDA" else ())


@every_recipe
def test_smoke_tests_stop_at_the_first_failure_and_one_runs_anywhere(entry: str) -> None:
    recipe = RECIPES[entry]

    assert () in {t.needs for t in recipe.tests}
    for test in recipe.tests:
        script = re.sub(r"<<'END'.*?\nEND\n", "\n", test.run, flags=re.DOTALL)
        assert len(script.strip().splitlines()) == 1 or test.run.startswith("set -euo pipefail\n"), test.name
        subprocess.run(["bash", "-n"], input=test.run, text=True, check=True)


@pytest.mark.parametrize(("entry", "plugin"), [("mpich/4.3", "pmi2"), ("openmpi/4.1", "pmix")])
def test_mpi_is_tried_by_mpirun_everywhere_and_by_srun_where_slurm_is(entry: str, plugin: str) -> None:
    tests = {t.name: t for t in RECIPES[entry].tests}

    assert tests["srun"].needs == ("slurm",)
    assert f"srun --mpi={plugin} --ntasks=2 " in tests["srun"].run
    assert tests["mpirun"].needs == ()
    assert re.search(r"^mpirun .*-n 2 ./sum", tests["mpirun"].run, re.MULTILINE)
    assert all("mpicc -o sum sum.c" in tests[t].run for t in ("srun", "mpirun"))


@pytest.mark.parametrize("entry", ["cuda/11.8", "cuda/12.9"])
def test_driver_requirement_is_nvidias_for_the_toolkit(entry: str) -> None:
    recipe, _, said = of_entry(entry)

    assert recipe.requires.nvidia_driver == minimum_driver(said["version"])


@pytest.mark.parametrize("twin", sorted(TWINS.glob("?/*/*.eb")), ids=lambda p: p.stem)
def test_twin_differs_in_version_and_checksum_alone(twin: Path) -> None:
    said = read_easyconfig(twin)
    (original,) = (p for p in SHIPPED if p.parent.name == twin.parent.name)
    old, new = original.read_text().splitlines(), twin.read_text().splitlines()

    changed = [line for line in difflib.ndiff(old, new) if line[0] in "+-"]
    assert len(old) == len(new)
    assert {re.split(r"[ =]", line[2:])[0] for line in changed} == {"version", "checksums"}
    assert len(changed) == 4
    assert twin.name == f"{said['name']}-{said['version']}.eb"


@pytest.mark.parametrize("name", SOURCES)
def test_source_for_tests_is_what_an_easyconfig_asks_for(name: str) -> None:
    source = SOURCES[name]
    folder, file = source.path.parent, source.path.name
    wanted = [read_easyconfig(p) for root in (ROOT, TWINS) for p in (root / folder).glob("*.eb")]

    named = {
        s["sources"][0] % {"name": s["name"], "namelower": s["name"].lower(), "version": s["version"]}: s["checksums"]
        for s in wanted
    }
    assert named[file] == [source.sha256]


def test_standin_easyconfig_differs_in_the_checksum_alone(tmp_path: Path) -> None:
    names = [p.name for p in SHIPPED if p.parent.name in {"CUDA", "Anaconda3", "TensorRT"}]

    written = add_standins(tmp_path / "robot", tmp_path / "sources", *names)

    assert sorted(p.name for p in written) == sorted(names)
    for path in written:
        original = ROOT / path.relative_to(tmp_path / "robot")
        changed = [
            d for d in difflib.ndiff(original.read_text().splitlines(), path.read_text().splitlines()) if d[0] in "+-"
        ]
        assert [re.sub(r"[0-9a-f]{64}", "", line[1:]) for line in changed][::2] == [
            re.sub(r"[0-9a-f]{64}", "", line[1:]) for line in changed
        ][1::2]
        assert len(changed) == 2
    assert len(list((tmp_path / "sources").rglob("*.*"))) == len(names)
