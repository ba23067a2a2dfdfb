from __future__ import annotations

import errno
import os
import random
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envmgr.errors import EnvmgrError
from envmgr.store.tree import TreePath, look_at_tree, make_read_only, scan_tree, tree_digest
from envmgr.system.files import remove_tree, sha256_bytes
from envmgr.wording import escaped

NAMES = st.text("ab\n é\\\"'$\udcff", min_size=1, max_size=4)
MODES = st.sampled_from([0o444, 0o555, 0o644, 0o755, 0o4755])
FILES = st.builds(
    lambda name, mode, content: TreePath(name, "file", mode, len(content), sha256_bytes(content)),
    NAMES,
    MODES,
    st.binary(max_size=8),
)
LINKS = st.builds(lambda name, target: TreePath(name, "link", 0o777, target=target), NAMES, NAMES)
FOLDERS = st.builds(lambda name, mode: TreePath(name, "dir", mode), NAMES, MODES)
TREES = st.lists(FILES | LINKS | FOLDERS, unique_by=lambda p: p.path, max_size=5)


def make_tree(root: Path) -> Path:
    (root / "lib" / "sub").mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "bin" / "tool").write_text("#!/bin/sh\n")
    (root / "bin" / "tool").chmod(0o755)
    (root / "lib" / "a.txt").write_text("a")
    (root / "lib" / "sub" / "b.txt").write_text("bb")
    (root / "lib" / "link").symlink_to("a.txt")
    (root / "lib" / "broken").symlink_to("./no//where")
    (root / "empty").mkdir()
    for path in root.rglob("*"):
        if not path.is_symlink() and path.name != "tool":
            path.chmod(0o755 if path.is_dir() else 0o644)
    return root


def digest(root: Path) -> str:
    return tree_digest(scan_tree(root))


def modes(root: Path) -> dict[str, str]:
    return {
        str(p.relative_to(root)): f"{stat.S_IMODE(p.lstat().st_mode):04o}"
        for p in sorted(root.rglob("*"))
        if not p.is_symlink()
    }


def test_scan_tree_tells_every_path_sorted(tmp_path: Path) -> None:
    assert [p.row() for p in scan_tree(make_tree(tmp_path))] == [
        ["bin", "dir", "0755", 0, ""],
        ["bin/tool", "file", "0755", 10, sha256_bytes(b"#!/bin/sh\n")],
        ["empty", "dir", "0755", 0, ""],
        ["lib", "dir", "0755", 0, ""],
        ["lib/a.txt", "file", "0644", 1, sha256_bytes(b"a")],
        ["lib/broken", "link", "0777", 0, "./no//where"],
        ["lib/link", "link", "0777", 0, "a.txt"],
        ["lib/sub", "dir", "0755", 0, ""],
        ["lib/sub/b.txt", "file", "0644", 2, sha256_bytes(b"bb")],
    ]


def test_scan_tree_of_an_empty_folder_is_empty(tmp_path: Path) -> None:
    assert scan_tree(tmp_path) == []


def test_scan_tree_does_not_follow_links_to_folders(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("x")
    (tmp_path / "tree" / "out").symlink_to("../outside")
    (tmp_path / "tree" / "self").symlink_to(".")
    assert [p.path for p in scan_tree(tmp_path / "tree")] == ["out", "self"]


def test_scan_tree_refuses_what_is_neither_file_folder_nor_link(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EnvmgrError, match="/pipe is neither file, folder nor link"):
        scan_tree(tmp_path)
    (tmp_path / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        with pytest.raises(EnvmgrError, match=r"error\[install-special-file\]: .*/s is neither file, folder nor link"):
            scan_tree(tmp_path)


def test_tree_digest_is_golden() -> None:
    """What decides it must not change by accident: every manifest of every site has it."""
    paths = [
        TreePath("bin", "dir", 0o555),
        TreePath("bin/python", "file", 0o555, 3, sha256_bytes(b"abc")),
        TreePath("bin/python3", "link", 0o777, target="python"),
    ]
    assert tree_digest(paths) == "abc753ab526d7e3150d257dd2237a2183f647a1ac28574ac6ebe6d20eab14a48"


def test_tree_digest_leaves_out_times_and_owners(tmp_path: Path) -> None:
    before = digest(make_tree(tmp_path))
    for path in tmp_path.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
        if os.geteuid() == 0:
            os.lchown(path, 65534, 65534)
    assert digest(tmp_path) == before


def test_tree_digest_does_not_depend_on_the_order_in_which_files_were_made(tmp_path: Path) -> None:
    names = [f"{n:03d}" for n in range(50)]
    for root in (tmp_path / "a", tmp_path / "b"):
        root.mkdir()
        random.Random(str(root)).shuffle(names)
        for name in names:
            (root / name).write_text(name)
            (root / name).chmod(0o644)
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


@given(TREES, st.randoms())
def test_tree_digest_is_of_the_set_of_paths(paths: list[TreePath], shuffler: random.Random) -> None:
    shuffled = list(paths)
    shuffler.shuffle(shuffled)
    assert tree_digest(shuffled) == tree_digest(paths)


@given(TREES, TREES)
def test_tree_digest_differs_for_different_trees(a: list[TreePath], b: list[TreePath]) -> None:
    same = {p.path: p for p in a} == {p.path: p for p in b}
    assert (tree_digest(a) == tree_digest(b)) == same


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "lib/a.txt").write_text("b"),
        lambda root: (root / "lib/a.txt").write_text("a\n"),
        lambda root: (root / "lib/a.txt").chmod(0o645),
        lambda root: (root / "lib/a.txt").chmod(0o4644),
        lambda root: (root / "lib/sub").chmod(0o750),
        lambda root: (root / "lib/a.txt").rename(root / "lib/A.txt"),
        lambda root: (root / "lib/a.txt").rename(root / "lib/sub/a.txt"),
        lambda root: (root / "lib/sub/b.txt").unlink(),
        lambda root: (root / "empty").rmdir(),
        lambda root: (root / "new").mkdir(),
        lambda root: (root / "lib/a.txt").unlink() or (root / "lib/a.txt").symlink_to("x"),
        lambda root: (root / "lib/link").unlink() or (root / "lib/link").symlink_to("sub/b.txt"),
        lambda root: (root / "lib/link").unlink() or (root / "lib/link").symlink_to("./a.txt"),
        lambda root: (root / "lib/link").unlink() or (root / "lib/link").symlink_to("a.txt/"),
    ],
    ids=[
        *("content", "one-byte-more", "one-mode-bit", "setuid", "folder-mode", "name", "folder", "file-gone"),
        *("empty-folder-gone", "new-folder", "link-for-file", "link-target", "link-dot", "link-slash"),
    ],
)
def test_tree_digest_changes_with_any_change(tmp_path: Path, change: object) -> None:
    before = digest(make_tree(tmp_path))
    change(tmp_path)  # type: ignore[operator]
    assert digest(tmp_path) != before


@settings(max_examples=25)
@given(st.sets(st.binary(min_size=1, max_size=6).filter(lambda b: b not in (b".", b"..") and not {0, 47} & set(b))))
def test_scan_tree_takes_every_name_that_the_kernel_takes(
    tmp_path_factory: pytest.TempPathFactory, names: set[bytes]
) -> None:
    root = tmp_path_factory.mktemp("names")
    for name in names:
        os.close(os.open(os.fsencode(root) + b"/" + name, os.O_CREAT | os.O_WRONLY, 0o644))
    found = scan_tree(root)
    assert {os.fsencode(p.path) for p in found} == names
    assert len(tree_digest(found)) == 64
    make_read_only(root)
    remove_tree(root)


def test_shown_is_one_printable_line() -> None:
    assert escaped("lib/ä b") == "lib/ä b"
    assert escaped("a\nb\x1b[31m") == r"a\nb\x1b[31m"
    assert escaped(os.fsdecode(b"\xff.so")) == r"\udcff.so"


@pytest.mark.parametrize(
    ("mask", "executable", "plain"), [(0o022, "0555", "0444"), (0o027, "0550", "0440"), (0o077, "0500", "0400")]
)
def test_make_read_only_normalises_modes_less_the_mask(tmp_path: Path, mask: int, executable: str, plain: str) -> None:
    root = make_tree(tmp_path / "tree")
    (root / "lib" / "a.txt").chmod(0o600)
    (root / "lib" / "sub").chmod(0o700)
    (root / "bin" / "tool").chmod(0o4711)
    make_read_only(root, mask=mask)
    assert stat.S_IMODE(root.stat().st_mode) == int(executable, 8)
    assert modes(root) == {
        "bin": executable,
        "bin/tool": executable,
        "empty": executable,
        "lib": executable,
        "lib/a.txt": plain,
        "lib/sub": executable,
        "lib/sub/b.txt": plain,
    }
    remove_tree(root)


def test_make_read_only_opens_folders_that_a_package_closed(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "tree")
    (root / "lib").chmod(0)
    make_read_only(root)
    assert modes(root)["lib/sub/b.txt"] == "0444"
    remove_tree(root)


def test_make_read_only_does_not_reach_through_links(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "tree")
    (tmp_path / "outside").write_text("x")
    (tmp_path / "outside").chmod(0o640)
    (root / "out").symlink_to("../outside")
    make_read_only(root, group=os.getegid())
    assert stat.S_IMODE((tmp_path / "outside").stat().st_mode) == 0o640
    remove_tree(root)


def test_make_read_only_sets_the_group_of_everything(tmp_path: Path) -> None:
    group = 65534 if os.geteuid() == 0 else [os.getegid(), *os.getgroups()][-1]
    root = make_tree(tmp_path / "tree")
    make_read_only(root, group=group)
    assert {p.lstat().st_gid for p in (root, *root.rglob("*"))} == {group}
    remove_tree(root)


class Failing:
    """A folder whose server fails while the folder is listed, or that lists paths whose status cannot be had."""

    def __init__(self, root: Path, listing: OSError | None, status: OSError | None) -> None:
        self.root, self.listing, self.status = str(root), listing, status
        self.scandir = os.scandir

    def __call__(self, path: str) -> object:
        return self if path == self.root else self.scandir(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __iter__(self) -> Iterator[object]:
        def stat(*, follow_symlinks: bool) -> os.stat_result:
            del follow_symlinks
            assert self.status is not None
            raise self.status

        with self.scandir(self.root) as entries:
            for entry in entries:
                yield entry if self.status is None else SimpleNamespace(name=entry.name, stat=stat)
        if self.listing is not None:
            raise self.listing


@pytest.mark.parametrize(
    ("listing", "status", "unread"),
    [
        (PermissionError(errno.EPERM, "not permitted"), None, {"lib": "not permitted"}),
        (OSError(errno.ESTALE, "stale handle"), None, {"lib": "stale handle"}),
        (None, OSError(errno.ESTALE, "stale handle"), dict.fromkeys(["lib/a.txt", "lib/b.txt"], "stale handle")),
        (None, FileNotFoundError(errno.ENOENT, "gone"), {}),
    ],
    ids=["listing", "stale listing", "stale path", "path that vanished"],
)
def test_folder_that_fails_while_it_is_listed_is_unread_and_what_vanished_is_not_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listing: OSError | None,
    status: OSError | None,
    unread: dict[str, str],
) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("lib/a.txt", "lib/b.txt", "other"):
        (tmp_path / name).write_text("x")
    monkeypatch.setattr(os, "scandir", Failing(tmp_path / "lib", listing, status))
    look = look_at_tree(tmp_path, None)
    assert [path.path for path in look.paths] == ["lib", "other"]
    assert look.unread == unread
    with pytest.raises(OSError, match=r"permitted|stale|gone"):
        scan_tree(tmp_path)
