"""Folders for temporary files: what a killed run left goes with the next, and nothing else does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from envmgr.errors import EnvmgrError
from envmgr.system import scratch
from envmgr.system.files import remove_tree
from envmgr.system.processes import host_mark
from envmgr.system.scratch import clear_dead_scratch, copy_folder, folder_lock, scratch_folder, temporary_files
from tests.helpers.small_disk import Small
from tests.helpers.waiting import wait_for

HOLDS = """
import sys, time
from pathlib import Path
from envmgr.system.scratch import scratch_folder
with scratch_folder("test") as folder:
    (folder / "below").mkdir()
    (folder / "below/file").write_text("left")
    (folder / "below").chmod(0o555)
    Path(sys.argv[1]).write_text(str(folder))
    time.sleep(1200)
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def other(base: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Another process with a folder, and that."""
    told = tmp_path / "told"
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(told)], env={**os.environ, "TMPDIR": str(base)})
    try:
        wait_for(lambda: told.exists() and told.read_text(), what="its folder")
        yield process, Path(told.read_text())
    finally:
        process.kill()
        process.wait()
        remove_tree(base)


def test_scratch_is_private_and_goes_at_the_end(base: Path) -> None:
    with scratch_folder("test") as folder:
        assert (folder.parent, folder.stat().st_mode & 0o777) == (base, 0o700)
        (folder / "file").touch()
    assert list(base.iterdir()) == []


def test_scratch_of_a_living_process_stays_and_of_a_killed_one_goes(
    other: tuple[subprocess.Popen[bytes], Path],
) -> None:
    process, folder = other
    with scratch_folder("test"):
        assert (folder / "below/file").read_text() == "left"
    process.send_signal(signal.SIGKILL)
    process.wait()
    with scratch_folder("test") as mine:
        assert list(mine.parent.iterdir()) == [mine]


def test_new_scratch_that_another_run_is_just_removing_is_made_again(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had the lock of the new folder before that had its own, and removed it a moment later."""
    make, taken = tempfile.mkdtemp, ExitStack()

    def made(**options: Any) -> str:
        monkeypatch.undo()
        folder = make(prefix=options["prefix"], dir=base)
        taken.enter_context(folder_lock(Path(folder)))
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", made)
    with taken, scratch_folder("test") as folder:
        first, second = sorted(base.iterdir(), key=lambda path: path == folder)
        remove_tree(first)
        assert second == folder
        assert folder.exists()
    assert not [*base.iterdir()]


def test_scratch_of_others_is_left_alone(base: Path, tmp_path: Path) -> None:
    """A link, a file, a folder that others can write, one of another user, and names that are not ours."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (base / f"envmgr-run-test-{host_mark()}-aaaaaaaa").symlink_to(outside)
    (base / f"envmgr-run-test-{host_mark()}-bbbbbbbb").touch()
    (base / f"envmgr-run-test-{host_mark()}-cccccccc").mkdir()
    (base / f"envmgr-run-test-{host_mark()}-cccccccc").chmod(0o777)
    for name in ("envmgr-build-root", "envmgr-ssh-0", "envmgr-run-x", "other-run-test-aaaaaaaa"):
        (base / name).mkdir()
    if os.geteuid() == 0:
        (base / f"envmgr-run-test-{host_mark()}-dddddddd").mkdir()
        os.chown(base / f"envmgr-run-test-{host_mark()}-dddddddd", 65534, 65534)
    before = sorted(base.iterdir())
    clear_dead_scratch(base)
    assert sorted(base.iterdir()) == before
    assert (outside / "kept").exists()


def test_scratch_removal_follows_no_link_inside(base: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    dead = base / f"envmgr-run-test-{host_mark()}-aaaaaaaa"
    dead.mkdir(mode=0o700)
    (dead / "link").symlink_to(outside)
    clear_dead_scratch(base)
    assert list(base.iterdir()) == []
    assert (outside / "kept").exists()


def test_copies_of_killed_runs_go_from_beside_their_place(base: Path) -> None:
    (base / f".copy-{host_mark()}-0123abcd").mkdir(mode=0o700)
    with copy_folder(base) as folder:
        assert list(base.iterdir()) == [folder]
    assert list(base.iterdir()) == []


def test_scratch_on_a_full_disk_is_an_error_of_the_house_form(tmp_path: Path) -> None:
    """Of folders too, of which a disk may have no more than its inodes."""
    code = """
from envmgr.errors import EnvmgrError
from envmgr.system.scratch import scratch_folder
try:
    with scratch_folder("test"):
        print("made")
except EnvmgrError as error:
    print(error.reference, error.message)
"""
    (tmp_path / "small").mkdir()
    inside = Small.enter(tmp_path, f"mount -t tmpfs -o size=64k,nr_inodes=1 tmpfs {tmp_path}/small")
    try:
        done = subprocess.run(
            [*inside.words(), sys.executable, "-c", code],
            env={"TMPDIR": f"{tmp_path}/small"},
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        inside.leave()
    assert done.stdout.startswith(f"disk-full no space left for {tmp_path}/small/envmgr-run-test-")


def test_no_place_for_temporary_files_is_an_error_of_the_house_form(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert temporary_files() == base
    (tmp_path / "file").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "file"))
    monkeypatch.setattr(scratch, "_USUAL", (str(base),))
    assert temporary_files() == base
    monkeypatch.setattr(scratch, "_USUAL", (str(tmp_path / "gone"),))
    with pytest.raises(EnvmgrError) as caught:
        temporary_files()
    assert (caught.value.reference, caught.value.context) == (
        "no-temporary-folder",
        (f"looked at {tmp_path}/file, {tmp_path}/gone",),
    )


def test_scratch_of_another_host_stays_where_its_lock_is_not_seen(base: Path) -> None:
    """$TMPDIR may be a home on a file server that keeps locks to each client."""
    theirs, ours = base / "envmgr-run-test-01234567-aaaaaaaa", base / f"envmgr-run-test-{host_mark()}-aaaaaaaa"
    for folder in (theirs, ours):
        folder.mkdir(mode=0o700)
    clear_dead_scratch(base)
    assert list(base.iterdir()) == [theirs]
    os.utime(theirs, (1, 1))
    clear_dead_scratch(base)
    assert list(base.iterdir()) == []
