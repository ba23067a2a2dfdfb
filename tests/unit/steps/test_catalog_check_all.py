"""`check` names every fault of every recipe in one run: one fault hides no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envmgr.catalog.site import load_site
from envmgr.report import SilentReporter
from envmgr.steps import Context
from envmgr.steps.catalog_check import CatalogCheck, check_catalog
from envmgr.system.run import Runner

WHEELS = {
    "backend": "wheels",
    "input": {"python": "nosuch/3.11", "requirements": "gone.txt", "constraints": "lost.txt"},
}
CONDA = {"backend": "conda", "input": {"channels": ["conda-forge"], "specs": ["x"]}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    site = {"schema": 1, "prefix": str(tmp_path / "sw"), "catalogs": ["recipes"]}
    (tmp_path / "site.yaml").write_text(json.dumps(site))
    return tmp_path


def write(folder: Path, entry: str, recipe: Any, software: Any = None) -> Path:
    place = folder / "recipes" / entry
    place.mkdir(parents=True, exist_ok=True)
    (place / "recipe.yaml").write_text(recipe if isinstance(recipe, str) else json.dumps(recipe, indent=1))
    (place.parent / "software.yaml").write_text(json.dumps(software or {"description": "x"}))
    return place


def check(folder: Path) -> CatalogCheck:
    ctx = Context(load_site(folder / "site.yaml", {}), Runner(), SilentReporter(), {})
    own = sorted((folder / "recipes").glob("*/*/recipe.yaml"))
    return check_catalog(ctx, ["/".join(path.parts[-3:-1]) for path in own])


def missing(folder: Path, *wanted: str) -> list[str]:
    """The words that no finding has."""
    told = "\n".join(finding.found for finding in check(folder).findings)
    return [words for words in wanted if words not in told]


def test_every_fault_of_one_recipe_is_named_at_once(folder: Path) -> None:
    recipe = {
        "schema": 1,
        "backend": "conda",
        "input": {"channels": ["nosuch"], "specs": ["bad/spec", "also::bad"], "virtual_packages": {"cuda": "1"}},
        "colour": "red",
        "depends": ["nosuch/1.0", "two words", "three words"],
        "conflicts": ["a b", "c d"],
        "families": ["my family"],
        "environment": {
            "set": {"1A": "x", "LD_PRELOAD": "x", "GOOD": "${nosuch}"},
            "prepend": {"PYTHONPATH": ["/x"]},
            "functions": {"f": {"bash": "if", "csh": "x!x"}, "g": {"bash": "", "csh": "a\nb"}},
        },
        "requires": {"glibc": "new", "compute_capability": ["many", "more"]},
        "tests": [
            {"name": "t", "run": "true", "timeout": "long"},
            {"name": "u", "run": "true", "nodes": 2},
            {"name": "v", "run": "true", "files": ["../x", "/y"]},
        ],
        "help": ["no text"],
        "hidden": True,
        "default": True,
        "deprecated": {"message": "gone", "date": "soon"},
        "accept": {"nosuch-rule": "x", "source-only": " "},
    }
    write(folder, "bad/1.0", recipe, {"descripton": "x"})
    assert not missing(
        folder,
        "colour: unknown field",
        "`two words` is not an entry",
        "`three words` is not an entry",
        "`a b` is neither",
        "`c d` is neither",
        "families: a family is one word",
        "`1A` is not a variable name",
        "LD_PRELOAD must not be set",
        "unknown ['nosuch']",
        "PYTHONPATH must not be set",
        "environment.functions.f: `csh`: csh reads `!x`",
        "environment.functions.g: `bash` is empty",
        "environment.functions.g: `csh` must be one line",
        "requires.glibc: `new`",
        "`many`",
        "`more`",
        "tests.0.timeout: ",
        "tests.1: a test of several nodes",
        "`../x` is not the name",
        "and ",
    )


def test_faults_of_fields_hide_neither_the_input_nor_the_files_nor_the_lock(folder: Path) -> None:
    recipe = {**WHEELS, "colour": "red", "depends": ["nosuch/1.0"]}
    write(folder, "wheels/1.0", recipe, {"descripton": "x"})
    write(folder, "conda/1.0", {**CONDA, "colour": "red", "input": {"channels": ["gone", "lost"], "specs": ["x"]}})
    write(folder, "eb/1.0", {"backend": "easybuild", "input": {"easyconfig": "NoSuch-1.0.eb"}, "colour": "red"})
    write(folder, "strange/1.0", {"backend": "brew", "input": {}, "depends": ["nosuch/2.0"], "colour": "red"})
    files = {"tests": [{"name": "t", "run": "true", "files": ["a.sh", "b.sh"]}], "depends": ["nosuch/3.0"]}
    write(folder, "tested/1.0", {**CONDA, **files})
    write(folder, "syntax/1.0", "backend: [", {"descripton": "x"})
    result = check(folder)
    by_entry: dict[str, str] = {}
    for finding in result.findings:
        by_entry[finding.where] = by_entry.get(finding.where, "") + finding.found + "\n"
    wanted = {
        "wheels/1.0": (
            "unknown field",
            "descripton",
            "no catalog has nosuch/1.0",
            "gone.txt",
            "lost.txt",
            "nosuch/3.11",
        ),
        "conda/1.0": ("unknown field", "no channel `gone`", "no channel `lost`", "no lock"),
        "eb/1.0": ("unknown field", "there is no easyconfig NoSuch-1.0.eb", "no lock"),
        "strange/1.0": ("unknown field", "brew", "no catalog has nosuch/2.0"),
        "tested/1.0": ("a.sh", "b.sh", "no catalog has nosuch/3.0", "no lock"),
        "syntax/1.0": ("recipe.yaml:", "descripton"),
    }
    lacking = {entry: [w for w in words if w not in by_entry.get(entry, "")] for entry, words in wanted.items()}
    assert lacking == {entry: [] for entry in wanted}, by_entry


def test_faults_between_entries_are_named_beside_their_own(folder: Path) -> None:
    for entry, below in ("a/1.0", "b/1.0"), ("b/1.0", "a/1.0"):
        write(folder, entry, {**CONDA, "depends": [below], "colour": "red"})
    for version in "1.0", "2.0":
        write(folder, f"twice/{version}", {**CONDA, "default": True, "colour": "red"})
    write(folder, "some-name/1.0", CONDA)
    write(folder, "some_name/1.0", CONDA)
    assert not missing(
        folder, "depends on itself", "twice/1.0 and twice/2.0 are both the default", "both set SOME_NAME_ROOT"
    )
    assert [f.where for f in check(folder).findings if "unknown field" in f.found] == [
        "a/1.0",
        "b/1.0",
        "twice/1.0",
        "twice/2.0",
    ]


def test_what_a_recipe_lacks_by_its_own_fault_is_not_said_again(folder: Path) -> None:
    write(folder, "bad/1.0", {**CONDA, "tests": [{"name": "t"}], "accept": {"nosuch": "x"}})
    told = [finding.found for finding in check(folder).findings]
    assert not [text for text in told if "no smoke test" in text], told


def test_every_file_that_a_lock_is_older_than_is_named(folder: Path) -> None:
    """The lock's own finding has its reasons: which easyconfigs and patches changed or are gone."""
    from envmgr.backends.easybuild.easyconfigs import changed_since, gone_files, installed_easyconfigs
    from envmgr.backends.easybuild.lock import EasyBuildLock, LockedFile, LockedItem
    from envmgr.backends.easybuild.settings import EASYBUILD

    assert installed_easyconfigs(EASYBUILD) is not None
    place = folder / "eb" / "t" / "Toy"
    place.mkdir(parents=True)
    (place / "Toy-1.0.eb").write_text("name = 'Toy'\n")
    settings = {"schema": 1, "prefix": str(folder / "sw"), "backends": {"easybuild": {"easyconfigs": ["eb"]}}}
    (folder / "site.yaml").write_text(json.dumps(settings))
    patches = tuple(LockedFile(name=f"{name}.patch", sha256="0" * 64) for name in ("one", "two"))
    (place / "one.patch").write_text("other\n")
    item = LockedItem.model_construct(
        name="Toy", version="1.0", easyconfig="Toy-1.0.eb", sha256="1" * 64, origin="catalog", patches=patches, files=()
    )
    site = load_site(folder / "site.yaml", {})
    assert changed_since(item, site) == [f"{place}/Toy-1.0.eb has changed", f"{place}/one.patch has changed"]
    lock = EasyBuildLock.model_construct(items=(item,), framework=EASYBUILD)
    assert [*gone_files(lock, site)] == [f"two.patch is gone: it is no longer beside {place}/Toy-1.0.eb"]
