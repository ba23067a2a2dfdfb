"""One tree, one image: whatever differs that a tree digest does not count."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from envmgr.errors import EnvmgrError
from envmgr.store.tree import make_read_only, scan_tree, tree_digest
from envmgr.system.files import sha256_file
from envmgr.system.run import Runner
from envmgr.system.safe_paths import remove_below
from envmgr.system.squashfs import Compression, find_maker, make_squashfs, options_of


def tree(root: Path, *, linked: bool, time: int, order: int) -> Path:
    """A tree with two equal files, an executable, a link and folders; `linked`, `time` and `order` do not count."""
    files = {
        "bin/run": b"#!/bin/sh\n",
        "lib/one": b"x" * 300_000,
        "lib/two": b"x" * 300_000,
        "lib/empty": b"",
        "a": b"a",
    }
    for name, data in sorted(files.items())[::order]:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "lib/two" and linked and (root / "lib/one").exists():
            path.hardlink_to(root / "lib/one")
        else:
            path.write_bytes(data)
    (root / "lib/link").symlink_to("one")
    (root / "bin/run").chmod(0o755)
    make_read_only(root, mask=0)
    for path in (root, *root.rglob("*")):
        os.utime(path, (time, time), follow_symlinks=False)
    return root


@pytest.fixture
def two(tmp_path: Path):  # type: ignore[no-untyped-def]
    one = tree(tmp_path / "one", linked=True, time=1, order=1)
    other = tree(tmp_path / "other", linked=False, time=2_000_000_000, order=-1)
    yield one, other
    for each in (one, other):
        remove_below(tmp_path, each)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_one_tree_digest_is_one_image(two: tuple[Path, Path], compression: Compression, tmp_path: Path) -> None:
    one, other = two
    assert tree_digest(scan_tree(one)) == tree_digest(scan_tree(other))
    maker = find_maker(Runner())
    for number, each in enumerate(two):
        make_squashfs(each, tmp_path / f"{number}.sqfs", maker, compression, Runner())
    assert sha256_file(tmp_path / "0.sqfs") == sha256_file(tmp_path / "1.sqfs")


def test_umask_of_the_site_does_not_count(two: tuple[Path, Path], tmp_path: Path) -> None:
    """The manifest's modes are those without it; only what is closed to others has no image at all."""
    make_read_only(two[1], mask=0o022)
    maker = find_maker(Runner())
    for number, each in enumerate(two):
        make_squashfs(each, tmp_path / f"{number}.sqfs", maker, "zstd", Runner())
    assert sha256_file(tmp_path / "0.sqfs") == sha256_file(tmp_path / "1.sqfs")
    said = subprocess.run(
        ["unsquashfs", "-lls", tmp_path / "0.sqfs"], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split() for line in said.splitlines() if "squashfs-root" in line]
    assert {row[1] for row in rows} == {"root/root"}
    assert {row[0] for row in rows} == {"dr-xr-xr-x", "-r-xr-xr-x", "-r--r--r--", "lrwxrwxrwx"}


@pytest.mark.parametrize("processors", ["1", "2"])
def test_number_of_processors_does_not_count(two: tuple[Path, Path], tmp_path: Path, processors: str) -> None:
    maker = find_maker(Runner())
    make_squashfs(two[0], tmp_path / "a.sqfs", maker, "zstd", Runner())
    argv = [maker.program, two[0], tmp_path / "b.sqfs", *options_of("zstd", maker.version), "-processors", processors]
    subprocess.run(argv, check=True, capture_output=True)
    assert sha256_file(tmp_path / "a.sqfs") == sha256_file(tmp_path / "b.sqfs")


def test_failure_leaves_nothing_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(EnvmgrError) as caught:
        make_squashfs(tmp_path / "none", tmp_path / "a.sqfs", find_maker(Runner()), "zstd", Runner())
    assert caught.value.reference == "image-not-made"
    assert [*tmp_path.iterdir()] == []


def test_missing_program_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_options: None)
    with pytest.raises(EnvmgrError) as caught:
        find_maker(Runner())
    assert caught.value.reference == "mksquashfs-missing"
    assert "squashfs-tools" in caught.value.hint


@pytest.mark.parametrize(
    ("version", "knows"), [("4.4", False), ("4.4-git.1", False), ("4.5", True), ("4.6.1", True), ("unknown", False)]
)
def test_option_that_older_versions_refuse_is_left_out(version: str, knows: bool) -> None:
    """Rocky 9 has 4.4, which ends with `invalid option`."""
    assert ("-no-hardlinks" in options_of("zstd", version)) is knows
