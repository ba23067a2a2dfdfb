"""Trees outside of the store: what is recorded, what counts as a change, and the list that nodes make of one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from envmgr.audit.checks import outside as check
from envmgr.errors import EnvmgrError
from envmgr.modules.spec import EnvOp, Outside
from envmgr.store.outside import (
    SEEN,
    How,
    OutsideTree,
    changes_outside,
    describe_outside,
    look_outside,
    require_seen,
    seen_text,
    shape_of,
)
from envmgr.system.shelltext import script_text
from tests.helpers.vendor_tree import make_tree

IGNORE = ("__pycache__", "pkgs")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "vendor" / "hello-1.0")


def record(tree: Path, install: Path, how: How = "full") -> Outside:
    """Record it as a build does."""
    seen = look_outside(tree, how, IGNORE)
    install.mkdir(exist_ok=True)
    (install / SEEN).write_text(seen_text(seen))
    path = EnvOp(kind="prepend", name="PATH", value=str(tree / "bin"))
    return describe_outside((str(tree),), how, IGNORE, seen, [path], "hello")


def test_changes_are_named(tree: Path, tmp_path: Path) -> None:
    seen = record(tree, tmp_path / "install")
    assert (seen.program, seen.file, seen.path) == ("bin/hello", "bin/hello", str(tree))
    assert changes_outside(tmp_path / "install", seen) == ()
    (tree / "bin/hello").write_text("#!/bin/sh\necho HELLO\n")  # the same size
    (tree / "lib/libhello.txt").chmod(0o600)
    (tree / "lib/libhello.txt.1").unlink()
    (tree / "lib/libhello.txt.1").symlink_to("elsewhere")
    (tree / "share/man/man1/hello.1").unlink()
    (tree / "new\x1b").write_text("")
    assert changes_outside(tmp_path / "install", seen) == (
        "bin/hello: sha256 changed",
        "lib/libhello.txt: mode changed",
        "lib/libhello.txt.1: target changed",
        "new\\x1b: new",
        "share/man/man1/hello.1: missing",
    )


def test_bytecode_and_ignored_names_do_not_count(tree: Path, tmp_path: Path) -> None:
    seen = record(tree, tmp_path / "install")
    (tree / "lib/__pycache__").mkdir()
    (tree / "lib/__pycache__/a.pyc").write_text("x")
    (tree / "pkgs").write_text("a file")
    assert changes_outside(tmp_path / "install", seen) == ()


def test_by_time_no_file_is_read(tree: Path, tmp_path: Path) -> None:
    seen = record(tree, tmp_path / "install", "times")
    before = (tree / "bin/hello").stat()
    (tree / "bin/hello").write_text("#!/bin/sh\necho HELLO\n")
    os.utime(tree / "bin/hello", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert changes_outside(tmp_path / "install", seen) == (), "size and time are as before"
    os.utime(tree / "bin/hello", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert changes_outside(tmp_path / "install", seen) == ("bin/hello: time changed",)


def test_link_that_leads_elsewhere_is_a_change(tree: Path, tmp_path: Path) -> None:
    link = tree.parent / "current"
    link.symlink_to(tree.name)
    seen = record(link, tmp_path / "install")
    assert changes_outside(tmp_path / "install", seen) == ()
    make_tree(tree.parent / "hello-1.1")
    link.unlink()
    link.symlink_to("hello-1.1")
    assert changes_outside(tmp_path / "install", seen) == (".: target changed",)


def test_tree_that_vanished_is_one_line(tree: Path, tmp_path: Path) -> None:
    seen = record(tree, tmp_path / "install")
    tree.rename(tree.with_name("away"))
    assert changes_outside(tmp_path / "install", seen) == (f"{tree}: No such file or directory",)
    tree.write_text("a file")
    assert changes_outside(tmp_path / "install", seen) == (f"{tree}: it is no folder",)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"paths": 1}', '{"paths": [[]]}', '{"paths": [["a", "file"]]}'])
def test_record_that_is_damaged_is_told(tree: Path, tmp_path: Path, text: str) -> None:
    seen = record(tree, tmp_path / "install")
    (tmp_path / "install" / SEEN).write_text(text)
    if text.endswith('"file"]]}'):
        assert changes_outside(tmp_path / "install", seen)
        return
    with pytest.raises(EnvmgrError) as caught:
        changes_outside(tmp_path / "install", seen)
    assert caught.value.reference == "manifest-damaged"


def test_parts_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(EnvmgrError) as caught:
        require_seen(tmp_path, OutsideTree(look_outside(tmp_path, "full", ()).rows, {"licence": "Permission denied"}))
    assert caught.value.reference == "tree-unreadable"
    assert caught.value.context == ("licence: Permission denied",)
    with pytest.raises(EnvmgrError) as caught:
        require_seen(tmp_path / "x", look_outside(tmp_path / "x", "full", ()))
    assert caught.value.head == f"error[tree-missing]: {tmp_path}/x cannot be used: No such file or directory"


@pytest.mark.parametrize("how", ["full", "times"])
@pytest.mark.parametrize("ignore", [(), IGNORE], ids=["all", "without"])
def test_nodes_list_a_tree_as_it_is_recorded(tree: Path, how: How, ignore: tuple[str, ...]) -> None:
    (tree / "lib/__pycache__").mkdir()
    (tree / "lib/__pycache__/a.pyc").write_text("x")
    (tree / "pkgs").mkdir()
    (tree / "a\nline.5").write_text("1")
    (tree / os.fsdecode(b"\xff odd\tname")).write_text("2")
    os.mkfifo(tree / "pipe")
    os.utime(tree / "pkgs", (1, 1))
    os.utime(tree / "a\nline.5", ns=(0, 1_600_000_000_987_654_321))
    right = shape_of(look_outside(tree, how, ignore).rows, how)
    argv = ["/bin/sh", "-c", script_text(check.__file__ or "", "look.sh"), "sh"]
    argv += [str(tree), how, " ".join(ignore), str(tree / "gone"), how, ""]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"@outside.shape.0={right}", "@outside.seen=1", "@outside.seen=2"]
    assert done.stderr == ""
