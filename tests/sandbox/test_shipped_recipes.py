"""The shipped recipes and their locks, by the command line."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.conda.lockfile import LOCK_NAME, read_lock
from envmgr.backends.conda.solve import find_conda_lock
from tests.helpers.sandbox import Sandbox
from tests.helpers.shipped import CONDA_FORGE, ENTRIES, NOTE, ROOT, lock_of
from tests.helpers.standin.conda_shim import install_shim
from tests.helpers.standin.from_locks import channel_from_locks
from tests.helpers.waiting import DEADLINE

MakeSandbox = Callable[[str, str], Sandbox]


@pytest.fixture
def box(make_sandbox: MakeSandbox) -> Sandbox:
    """A site without channels of its own: the catalog is the shipped one."""
    made = make_sandbox("site", "")
    made.settings = {"channels": {}}
    made.write_site()
    return made


UNLOCKED = ("pytorch-ngc/24.08", "tensorflow-ngc/24.08")


def test_catalog_check_finds_nothing_in_the_shipped_catalog(box: Sandbox) -> None:
    """But for the images of a registry that was out of reach."""
    done = box.ok("check", "--format", "json")

    assert {(row["check"], row["where"]) for row in done.data["findings"]} == {("lock", name) for name in UNLOCKED}
    assert {row["hint"] for row in done.data["findings"]} == {
        f"run `envmgr copy {name} && envmgr lock {name}` and commit the result" for name in UNLOCKED
    }
    assert done.data["checked"] >= len(ENTRIES)


def test_catalog_has_every_entry_and_one_default_a_name(box: Sandbox) -> None:
    listed = {e["entry"]: e for e in box.ok("list", "--format", "json").data["entries"]}

    assert {e: listed[e]["state"] for e in ENTRIES} == dict.fromkeys(ENTRIES, "locked")
    defaults = [e for e in ENTRIES if "default" in listed[e]["notes"]]
    assert defaults == ["mpich/4.2", "python/3.12", "pytorch/2.7-cuda12.9", "tensorflow/2.15-cuda11.8"]


def test_shipped_lock_is_never_written(box: Sandbox) -> None:
    done = box.run("lock", "mpich/4.2")

    assert done.code == 3
    assert "error[catalog-read-only]: mpich/4.2 is in the catalog that ships with envmgr" in done.stderr


def test_solving_again_gives_the_same_locks(make_sandbox: MakeSandbox, tmp_path: Path) -> None:
    box = relocking_site(make_sandbox, tmp_path)
    snapshot_digest = re.compile(
        r"(?<=; )(linux-64|noarch|\s)+[0-9a-f]{64}|\s+noarch [0-9a-f]{64}"
    )  # another folder: only these may differ

    box.ok("lock", *ENTRIES)

    for entry in ENTRIES:
        old, new = (folder / entry / LOCK_NAME for folder in (ROOT, box.root / "recipes"))
        assert snapshot_digest.sub("", new.read_text()) == snapshot_digest.sub("", old.read_text())
        assert read_lock(new.parent)[0].packages == lock_of(entry).packages


def test_solving_by_conda_lock_gives_the_same_lock_as_by_rattler(make_sandbox: MakeSandbox, tmp_path: Path) -> None:
    box = relocking_site(make_sandbox, tmp_path)
    folder = box.root / "recipes" / "pytorch/2.1-cuda11.8"

    box.ok("lock", "pytorch/2.1-cuda11.8")
    by_rattler = (folder / LOCK_NAME).read_bytes()
    done = box.ok("lock", "pytorch/2.1-cuda11.8", "--solver", "conda-lock")

    assert done.stdout.startswith("pytorch/2.1-cuda11.8: unchanged  123 packages\n  note: ")
    assert (folder / LOCK_NAME).read_bytes() == by_rattler


def relocking_site(make_sandbox: MakeSandbox, tmp_path: Path) -> Sandbox:
    """A site with the shipped recipes, without locks, in a catalog of its own; conda-forge has their packages."""
    box = make_sandbox("relock", "")
    mirror = channel_from_locks((ROOT / e for e in ENTRIES), tmp_path / "snapshot")
    conda_forge = {"url": CONDA_FORGE, "mirrors": [str(mirror)], "note": NOTE}
    box.settings = {"channels": {"conda-forge": conda_forge}, "conda": str(install_shim(box.root))}
    box.write_site()
    for entry in ENTRIES:
        folder = box.root / "recipes" / entry
        folder.mkdir(parents=True)
        (folder / "recipe.yaml").write_bytes((ROOT / entry / "recipe.yaml").read_bytes())
        (folder.parent / "software.yaml").write_bytes((ROOT / entry).parent.joinpath("software.yaml").read_bytes())
    return box


def test_build_dry_run_lists_the_real_packages_of_pytorch(box: Sandbox) -> None:
    (step,) = box.ok("build", "pytorch/2.1-cuda11.8", "--dry-run", "--format", "json").data["steps"]

    packages: dict[str, Any] = step["planned"]["packages"]
    assert len(packages) == 123
    assert packages["pytorch"] == "2.1.2 cuda118_py311hde743b7_303"
    assert packages["cudatoolkit"] == "11.8.0 h4ba93d1_13"
    shown = box.ok("build", "pytorch/2.1-cuda11.8", "--dry-run").stdout
    assert shown.startswith("pytorch/2.1-cuda11.8: build store/pytorch/2.1-cuda11.8-")
    assert "(123 packages, " in shown.splitlines()[0]
    assert not box.prefix.exists()


every_entry = pytest.mark.parametrize("entry", ENTRIES)


@every_entry
def test_conda_lock_renders_every_shipped_lock_to_its_own_urls(entry: str, tmp_path: Path) -> None:
    subprocess.run(
        [find_conda_lock(), "render", "--kind", "explicit", "-p", "linux-64", ROOT / entry / LOCK_NAME],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=DEADLINE,
    )

    rendered = [r for r in (tmp_path / "conda-linux-64.lock").read_text().splitlines() if r.startswith("http")]
    assert sorted(rendered) == sorted(f"{p.url}#{p.md5}" for p in lock_of(entry).packages)
