"""What `import` and `adopt` read of a Spack: a folder by its file, trees above modules, and what cannot become an entry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envmgr.errors import EnvmgrError
from envmgr.exchange import FoundTree, read_file, trees_above
from envmgr.system.run import Runner
from tests.helpers.spack_tree import FOLDER, HASH, make_spack_tree, recorded, write_database


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    make_spack_tree(tmp_path / "spack")
    return tmp_path / "spack"


def test_folder_is_read_by_the_file_in_it(tree: Path) -> None:
    found = read_file(tree, Runner())
    assert found == read_file(tree / ".spack-db/index.json", Runner())
    (entry,) = found[1].entries
    assert (entry.name, entry.version, entry.backend, entry.needs) == ("bzip2", "1.0.8", "existing", ())
    assert entry.input == {"path": f"{tree}/{FOLDER}", "spack": {"tree": str(tree), "hash": HASH}}
    assert entry.comment.startswith("bzip2@1.0.8 %gcc@12.2.0 ")


def test_folder_of_nobody_is_told(tmp_path: Path) -> None:
    with pytest.raises(EnvmgrError):
        read_file(tmp_path, Runner())


def test_install_that_runs_with_others_says_so(tree: Path) -> None:
    data = json.loads(recorded("index.json", str(tree)))
    runtime = next(row for row in data["database"]["installs"].values() if row["spec"]["name"] == "gcc-runtime")
    data["database"]["installs"][HASH]["spec"]["dependencies"] = [
        {"name": "gcc-runtime", "hash": runtime["spec"]["hash"], "parameters": {"deptypes": ["link", "run"]}}
    ]
    write_database(tree, data)
    (entry,) = read_file(tree, Runner())[1].entries
    assert entry.needs == ("it runs with gcc-runtime: `command:` of the recipe can take Spack's own environment",)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"path": "/gone"}, "Spack's database has it, and /gone is not there"),
        ({"installed": False}, "is not there"),
        ({"spec": {"version": "git.main=1.0"}}, "git.main=1.0"),
    ],
)
def test_install_that_cannot_be_an_entry_is_left(tree: Path, change: dict[str, object], why: str) -> None:
    data = json.loads(recorded("index.json", str(tree)))
    row = data["database"]["installs"][HASH]
    row["spec"] |= change.pop("spec", {})
    row |= change
    write_database(tree, data)
    found = read_file(tree, Runner())[1]
    assert found.entries == ()
    (left,) = (*found.left, *found.differences)
    assert why in left.why


def test_trees_above_modules_are_found(tree: Path, tmp_path: Path) -> None:
    places = [tree / FOLDER, tree / "gcc-runtime", tmp_path / "elsewhere"]
    assert trees_above(places, Runner()) == (FoundTree(str(tree), "spack", 1),)
    data = json.loads(recorded("index.json", str(tree)))
    data["database"]["version"] = "12"
    write_database(tree, data)
    (found,) = trees_above(places, Runner())
    assert found.why.endswith("has format '12', and this envmgr knows 5 to 8")
    assert trees_above([], Runner()) == ()
