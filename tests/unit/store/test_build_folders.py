"""A tree takes its place in one step; sources are compiled in a private folder."""

from __future__ import annotations

import errno
import getpass
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envmgr.builds.prepare import clean_leftovers
from envmgr.catalog.names import Entry
from envmgr.errors import EnvmgrError
from envmgr.report import SilentReporter
from envmgr.store.build_folders import StagedInstall, build_folder, clear, work_folder
from envmgr.store.dead_builds import end_work
from envmgr.store.jobtable import left_row
from envmgr.store.prefix import Install, Prefix
from envmgr.store.tree import make_read_only
from envmgr.system.locks import file_lock, mark_of
from envmgr.system.run import Runner


def make(path: Path, text: str) -> None:
    path.mkdir(parents=True)
    (path / "file").write_text(text)
    make_read_only(path)


def staged(tmp_path: Path) -> StagedInstall:
    site: Any = SimpleNamespace(policies=SimpleNamespace(group=None, mask=0o022))
    return StagedInstall(Install(Prefix(tmp_path), Entry("a", "1"), "0" * 64), site, marks=False)


def in_prefix(tmp_path: Path) -> Install:
    prefix = Prefix(tmp_path / "prefix")
    prefix.jobs.mkdir(parents=True)
    return Install(prefix, Entry("zlib", "1.3"), "12345678" * 8)


def test_land_puts_a_new_tree_in_its_place(tmp_path: Path) -> None:
    new = staged(tmp_path)
    make(new.folder, "new")
    new.land()
    assert ((new.install.path / "file").read_text(), new.folder.exists()) == ("new", False)
    clear(new.install)
    assert not new.install.path.exists()


def test_what_another_run_builds_by_now_is_neither_landed_nor_removed(tmp_path: Path) -> None:
    """This one stood still, another host took it for dead and began anew; then this one goes on, or fails and cleans up."""
    new = staged(tmp_path)
    make(new.folder, "theirs")
    with file_lock(new.install.lock):
        mark = mark_of(new.install.lock)
        row = json.loads(mark.read_text())
        mark.write_text(json.dumps({**row, "host": "elsewhere"}))
        for step in (lambda: clear(new.install), new.land):
            with pytest.raises(EnvmgrError, match=r"(?s)error\[lock-lost\].*on elsewhere"):
                step()
    assert (new.folder / "file").read_text() == "theirs"
    assert not new.install.path.exists()


INSTALL: Any = SimpleNamespace(entry=SimpleNamespace(name="zlib"), label="1.3-12345678")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the name would be taken in the folder for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp" / f"envmgr-build-{getpass.getuser()}"


def site(build_dir: Path | None = None) -> Any:
    return SimpleNamespace(build_dir=build_dir)


def test_build_goes_on_where_a_stranger_took_the_name(place: Path, tmp_path: Path) -> None:
    own = tmp_path / "home/.cache/envmgr" / place.name / "zlib-1.3-12345678"
    assert work_folder(site(), INSTALL) == place / "zlib-1.3-12345678"
    place.mkdir(0o700)
    assert work_folder(site(), INSTALL) == place / "zlib-1.3-12345678"
    place.chmod(0o777)
    assert work_folder(site(), INSTALL) == own
    place.rmdir()
    place.symlink_to(tmp_path)
    assert work_folder(site(), INSTALL) == own
    place.unlink()
    place.touch()
    assert work_folder(site(), INSTALL) == own
    with build_folder(in_prefix(tmp_path), own, Runner(), SilentReporter()):
        assert own.stat().st_uid == os.geteuid()
    assert not own.parent.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of others")
def test_folder_of_another_user(place: Path, tmp_path: Path) -> None:
    place.mkdir(0o700)
    os.chown(place, 65534, 65534)
    assert work_folder(site(), INSTALL).is_relative_to(tmp_path / "home")


def test_place_that_the_site_names_is_taken_or_refused(place: Path, tmp_path: Path) -> None:
    named = tmp_path / "named"
    (named / place.name).mkdir(parents=True, mode=0o777)
    (named / place.name).chmod(0o777)
    folder = work_folder(site(named), INSTALL)
    assert folder.is_relative_to(named)
    with (
        pytest.raises(EnvmgrError, match="can be changed by other users"),
        build_folder(in_prefix(tmp_path), folder, Runner(), SilentReporter()),
    ):
        pass


def test_folder_that_could_not_be_removed_is_cleared_by_a_later_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An EIO of the disk, a process that still writes there: the row of the build stays, and the next run goes by it."""
    prefix = Prefix(tmp_path / "prefix")
    prefix.jobs.mkdir(parents=True)
    install = Install(prefix, Entry("zlib", "1.3"), "12345678" * 8)
    folder = tmp_path / f"envmgr-build-{getpass.getuser()}" / f"zlib-{install.label}"

    def fails(_top: Path, path: Path) -> None:
        if path.is_dir() and any(path.iterdir()):
            raise OSError(errno.EIO, "Input/output error", str(path))

    with build_folder(install, folder, Runner(), SilentReporter()):
        (folder / "made").write_text("")
        monkeypatch.setattr("envmgr.store.build_folders.remove_below", fails)
    monkeypatch.undo()
    assert (folder / "made").exists()
    row = left_row(install)
    assert row is not None
    assert row.work == str(folder)
    monkeypatch.setattr(
        "envmgr.store.dead_builds.runs_here", lambda _row: False
    )  # the process that left it is this one
    clean_leftovers(prefix, SilentReporter())
    assert not folder.parent.exists()
    assert left_row(install) is None
    with build_folder(install, folder, Runner(), SilentReporter()):
        assert left_row(install) is not None
    assert left_row(install) is None


def test_builds_for_two_prefixes_wait_for_each_other(tmp_path: Path) -> None:
    """The path of a build is the same for all prefixes of a user: the second one removed the first one's files."""
    folder = tmp_path / f"envmgr-build-{getpass.getuser()}" / "zlib-1.3-12345678"
    inside: list[int] = []

    def build(number: int) -> None:
        with build_folder(in_prefix(tmp_path / str(number)), folder, Runner(), SilentReporter()):
            inside.append(number)
            assert inside == [number]
            assert not [*folder.iterdir()]
            (folder / "made").write_text(str(number))
            time.sleep(0.02)
            assert (folder / "made").read_text() == str(number)
            inside.remove(number)

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(build, range(16))] == [None] * 16
    assert not folder.parent.exists()
    assert not [*tmp_path.glob("*/prefix/var/jobs/*")]


def test_row_of_a_dead_build_leaves_the_folder_of_a_live_one(tmp_path: Path) -> None:
    """Another prefix builds the same lock there, since the dead build was killed."""
    dead, live = (in_prefix(tmp_path / name) for name in ("dead", "live"))
    folder = tmp_path / f"envmgr-build-{getpass.getuser()}" / f"zlib-{dead.label}"
    with build_folder(live, folder, Runner(), SilentReporter()):
        (folder / "made").touch()
        end_work(dead, folder, SilentReporter())
        assert (folder / "made").exists()
    folder.mkdir(parents=True)
    folder.chmod(0)
    end_work(dead, folder, SilentReporter())
    assert not folder.parent.exists()
