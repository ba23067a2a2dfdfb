"""A tree that was built again takes the place of the one that lies there, or leaves it as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envmgr.catalog.names import Entry
from envmgr.errors import EnvmgrError
from envmgr.store.build_folders import clear, land
from envmgr.store.manifest import unmasked_tree
from envmgr.store.prefix import Install, Prefix
from envmgr.store.tree import make_read_only, tree_digest
from envmgr.system.locks import file_lock, mark_of


def make(path: Path, text: str) -> None:
    path.mkdir(parents=True)
    (path / "file").write_text(text)
    make_read_only(path)


def install(tmp_path: Path, replaces: str | None) -> Install:
    return Install(Prefix(tmp_path), Entry("a", "1"), "0" * 64, replaces=replaces)


def test_land_puts_a_new_tree_in_its_place(tmp_path: Path) -> None:
    new = install(tmp_path, None)
    make(new.staging, "new")
    land(new)
    assert ((new.path / "file").read_text(), new.staging.exists()) == ("new", False)
    clear(new)
    assert not new.path.exists()


@pytest.mark.parametrize("known", [True, False])
def test_land_replaces_a_damaged_tree(tmp_path: Path, known: bool) -> None:
    make(tmp_path / "right", "new")
    again = install(tmp_path, tree_digest(unmasked_tree(tmp_path / "right")) if known else "")
    make(again.staging, "new")
    make(again.path, "damaged")
    with (again.path / "file").open() as file:
        land(again)
        assert file.read() == "damaged", "who has it open keeps it"
    assert (again.path / "file").read_text() == "new"
    assert [path.name for path in again.path.parent.iterdir()] == [again.path.name]


def test_land_replaces_a_link_and_not_what_it_names(tmp_path: Path) -> None:
    make(tmp_path / "elsewhere", "theirs")
    again = install(tmp_path, "")
    make(again.staging, "new")
    again.path.symlink_to(tmp_path / "elsewhere")
    land(again)
    assert (again.path.is_symlink(), (again.path / "file").read_text()) == (False, "new")
    assert (tmp_path / "elsewhere/file").read_text() == "theirs"


def test_land_keeps_what_is_there_when_the_new_tree_is_another(tmp_path: Path) -> None:
    again = install(tmp_path, "1" * 64)
    make(again.staging, "new")
    make(again.path, "damaged")
    with pytest.raises(EnvmgrError, match="repair-differs") as caught:
        land(again)
    assert caught.value.context[0] == f"manifest    {'1' * 64}"
    clear(again)
    assert ((again.path / "file").read_text(), again.staging.exists()) == ("damaged", False)


def test_what_another_run_builds_by_now_is_neither_landed_nor_removed(tmp_path: Path) -> None:
    """This one stood still, another host took it for dead and began anew; then this one goes on, or fails and cleans up."""
    new = install(tmp_path, None)
    make(new.staging, "theirs")
    with file_lock(new.lock):
        mark = mark_of(new.lock)
        row = json.loads(mark.read_text())
        mark.write_text(json.dumps({**row, "host": "elsewhere"}))
        for step in (clear, land):
            with pytest.raises(EnvmgrError, match=r"(?s)error\[lock-lost\].*on elsewhere"):
                step(new)
    assert (new.staging / "file").read_text() == "theirs"
    assert not new.path.exists()
