"""Where the Pythons of an install have their standard library, and the mark that each of them gets."""

from __future__ import annotations

import configparser
import json
from pathlib import Path

import pytest

from envmgr.system.pythons import MARK, MARK_TEXT, mark_pythons, pip_writes, standard_libraries


def library(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("os.py", "site.py"):
        (folder / name).write_text("")
    return folder


def found(root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in standard_libraries(root)]


@pytest.mark.parametrize("name", ["lib/python3.11", "lib/python3.13t", "lib/pypy3.10", "lib64/python3.12"])
def test_standard_library_is_found_by_what_it_has(tmp_path: Path, name: str) -> None:
    library(tmp_path / name)
    assert found(tmp_path) == [name]


def test_library_below_a_link_is_found_once(tmp_path: Path) -> None:
    library(tmp_path / "lib/python3.11")
    (tmp_path / "lib64").symlink_to("lib")
    assert found(tmp_path) == ["lib/python3.11"]


def test_folder_that_is_no_standard_library_of_this_install_is_left_alone(tmp_path: Path) -> None:
    """A virtual environment has none, packages for a Python of the system have a folder only, a link leads elsewhere."""
    root = tmp_path / "install"
    for name in ("lib/python3.11/site-packages", "lib/python3/dist-packages", "lib/node"):
        (root / name).mkdir(parents=True)
    (root / "lib/node/os.py").write_text("")
    (root / "lib/python3.9").symlink_to(library(tmp_path / "elsewhere/python3.9"))
    assert found(root) == []
    mark_pythons(root)
    assert [*tmp_path.rglob(MARK)] == []


def test_mark_says_what_pip_shall_say(tmp_path: Path) -> None:
    mark_pythons(library(tmp_path / "lib/python3.11").parent.parent)
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string((tmp_path / "lib/python3.11" / MARK).read_text())
    assert {name: dict(parser[name]) for name in parser.sections()} == {
        "externally-managed": {"error": "This Python belongs to a module. For your own packages see `module help`"}
    }
    assert (tmp_path / "lib/python3.11" / MARK).read_text() == MARK_TEXT


def test_conda_takes_the_mark_for_a_file_of_the_package_whose_python_it_is(tmp_path: Path) -> None:
    """It copies what no record names into clones of the environment."""
    library(tmp_path / "lib/python3.11")
    files = {
        "python-3.11.7-0": ["bin/python", "lib/python3.11/os.py", "lib/python3.11/site.py"],
        "speaks-of-it-1.0-0": ["share/doc/lib/python3.11/os.py.txt"],
        "nothing-1.0-0": None,
    }
    (tmp_path / "conda-meta").mkdir()
    for name, names in files.items():
        record = {"name": name, "paths_data": {"paths": []}, "files": names}
        (tmp_path / f"conda-meta/{name}.json").write_text(json.dumps(record))
    before = {path.name: path.read_text() for path in (tmp_path / "conda-meta").iterdir()}
    mark_pythons(tmp_path)
    after = {path.name: path.read_text() for path in (tmp_path / "conda-meta").iterdir()}
    changed = [name for name in after if after[name] != before.get(name)]
    assert (changed, sorted(after)) == (["python-3.11.7-0.json"], sorted(before))
    owner, was = json.loads(after["python-3.11.7-0.json"]), json.loads(before["python-3.11.7-0.json"])
    assert owner == was | {"files": [*was["files"], f"lib/python3.11/{MARK}"]}


def test_mark_of_a_package_gives_way_and_the_package_keeps_its_own(tmp_path: Path) -> None:
    """An installer links its packages' files into the environment."""
    own, mark = tmp_path / "pkgs/conda-pypi/mark", library(tmp_path / "lib/python3.11") / MARK
    own.parent.mkdir(parents=True)
    own.write_text("[externally-managed]\nError=conda pypi install\n")
    own.chmod(0o444)
    mark.hardlink_to(own)
    assert mark_pythons(tmp_path) == [f"lib/python3.11/{MARK}"]
    assert (mark.read_text(), "conda pypi" in own.read_text()) == (MARK_TEXT, True)


@pytest.mark.parametrize(
    ("pip", "mark", "conda", "writes"),
    [
        ("22.3.1", True, False, True),
        ("9.0", True, False, True),
        ("23.0", True, False, False),
        ("24.3.1", True, False, False),
        ("24.3.1", False, False, True),
        (None, False, False, False),
        ("22.3.1", True, True, False),
    ],
)
def test_pip_that_would_install_into_a_module(
    tmp_path: Path, pip: str | None, mark: bool, conda: bool, writes: bool
) -> None:
    """conda's own environments are no virtual ones: where there is a conda, their pip must not be stopped."""
    lib = library(tmp_path / "lib/python3.11")
    if pip:
        (lib / f"site-packages/pip-{pip}.dist-info").mkdir(parents=True)
    if mark:
        mark_pythons(tmp_path)
    if conda:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/conda").touch()
    assert pip_writes(tmp_path) is writes
