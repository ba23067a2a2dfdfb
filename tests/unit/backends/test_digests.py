"""The digests of all that ships, and of the tests' twins, as they were recorded.

Another value here renames and rebuilds an install of every site. A recipe that was locked anew has another digest on purpose:
then, and only then, its row in tests/golden/digests/expected.json is recorded anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envmgr.backends import get_backend
from envmgr.backends.conda.backend import CondaBackend
from envmgr.backends.easybuild.backend import EasyBuildBackend
from envmgr.backends.wheels.backend import WheelsBackend
from envmgr.catalog.entries import open_catalog
from envmgr.catalog.site import Target, load_site
from tests.helpers.places import TESTS

GOLDEN = TESTS / "golden" / "digests"
EXPECTED: dict[str, dict[str, dict[str, str]]] = json.loads((GOLDEN / "expected.json").read_text())
TARGET = Target(arch="x86_64", cpu_level="x86-64-v2", os_id="rocky", os_major="9", glibc="2.34")


def digests(folder: Path, *, twins: bool = False) -> dict[str, dict[str, str]]:
    """entry -> `name/version` of each of its items -> digest, for a fixed prefix and target."""
    own = (
        {"catalogs": [str(GOLDEN / "twins")], "backends": {"easybuild": {"easyconfigs": [str(TESTS / "easyconfigs")]}}}
        if twins
        else {}
    )
    (folder / "site.yaml").write_text(json.dumps({"prefix": "/shared/envmgr", **own}))
    site = load_site(folder / "site.yaml", {})
    found = {}
    for entry in open_catalog(site).entries():
        if entry.shipped != twins:
            recipe = entry.recipe()
            if recipe.backend == "container":  # they ship without a lock
                continue
            lock = get_backend(recipe.backend).load_lock(entry.entry, recipe, entry.folder, site)
            found[str(entry.entry)] = {str(i.install.entry): i.install.digest for i in lock.items(site, TARGET)}
    return found


def test_shipped_recipes_have_the_digests_that_they_always_had(tmp_path: Path) -> None:
    assert digests(tmp_path) == EXPECTED["shipped"]


def test_twins_have_the_digests_that_they_always_had(tmp_path: Path) -> None:
    assert digests(tmp_path, twins=True) == EXPECTED["twins"]


@pytest.mark.parametrize("changed", [CondaBackend, EasyBuildBackend, WheelsBackend], ids=lambda backend: backend.name)
def test_layout_of_one_backend_renames_its_own_installs_and_what_stands_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: type[CondaBackend | EasyBuildBackend | WheelsBackend]
) -> None:
    monkeypatch.setattr(changed, "layout", 2)
    (tmp_path / "new").mkdir()
    found, before = digests(tmp_path / "new"), EXPECTED["shipped"]
    made_by = {str(e.entry): e.recipe() for e in open_catalog(load_site(None, {"HOME": "/nowhere"})).entries()}
    backends = {name: recipe.backend for name, recipe in made_by.items()}
    pythons = {name: backends.get(made_by[name].input.get("python", "")) for name in found}
    anew = {name for name in found if changed.name in (backends[name], pythons[name])}
    assert {name for name in found if found[name] != before[name]} == anew
