"""The digests of all that ships, and of the tests' twins, as they were recorded before the backends had a contract.

Another value here renames and rebuilds an install of every site. A recipe that was locked anew has another digest on purpose:
then, and only then, its row in tests/golden/digests/expected.json is recorded anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envmgr.backends import all_backends, get_backend
from envmgr.backends.conda.backend import CondaBackend
from envmgr.backends.easybuild.backend import EasyBuildBackend
from envmgr.backends.wheels.backend import WheelsBackend
from envmgr.catalog.entries import open_catalog
from envmgr.catalog.site import Target, load_site
from tests.helpers.places import TESTS

GOLDEN = TESTS / "golden" / "digests"
EXPECTED: dict[str, dict[str, dict[str, str]]] = json.loads((GOLDEN / "expected.json").read_text())
TARGET = Target(arch="x86_64", cpu_level="x86-64-v2", os_id="rocky", os_major="9", glibc="2.34")

# Their installs bring `bin/python`: layout 2 marks it, see system/pythons.py.
PYTHONS = {
    "anaconda/2023.09",
    "anaconda/2025.06",
    "horovod/0.28-cuda11.7",  # one of the installs below it
    "python/3.10",
    "python/3.11",
    "python/3.12",
    "python/3.13",
    "pytorch/2.1-cuda11.8",
    "pytorch/2.7-cuda12.9",
    "tensorflow/2.15-cuda11.8",
}
# Wheels, which stand on python/3.11: its digest is in theirs.
ON_PYTHON = {
    "accelerate/1.15",
    "cudf/26.10-cuda12",
    "cudnn/9.28-cuda12",
    "cupy/14.2-cuda12",
    "deepspeed/0.19",
    "fairscale/0.4",
    "horovod/0.28-gloo",
    "ipyparallel/9.2",
    "jax/0.10-cuda12",
    "jupyter/4.6",
    "mpi4py/4.1-mpich4.3",
    "mpi4py/4.1-openmpi4.1",
    "nccl/2.32-cuda12",
    "pytensor/3.0",
    "pytorch/2.1-cuda12.1",
    "pytorch/2.10-cuda12.8",
    "pytorch/2.15-cuda13.2",
    "tensorflow/2.21-cuda12.9",
    "transformers/5.24",
    "vllm/0.21",
}


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
    layouts = {backend.name: backend.layout for backend in all_backends()}
    assert [layouts[name] for name in ("conda", "easybuild", "wheels")] == [2, 2, 1]
    monkeypatch.setattr(changed, "layout", 3)
    (tmp_path / "new").mkdir()
    found, before = digests(tmp_path / "new"), EXPECTED["shipped"]
    of = {str(e.entry): e.recipe().backend for e in open_catalog(load_site(None, {"HOME": "/nowhere"})).entries()}
    own = {name for name in PYTHONS | ON_PYTHON if of[name] == changed.name}
    assert {name for name in found if found[name] != before[name]} == (own | ON_PYTHON if "python/3.11" in own else own)


def test_entries_without_python_have_the_digests_of_the_first_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for backend in (CondaBackend, EasyBuildBackend):
        monkeypatch.setattr(backend, "layout", 1)
    before = digests(tmp_path)
    assert {name for name, found in before.items() if found != EXPECTED["shipped"][name]} == PYTHONS | ON_PYTHON
