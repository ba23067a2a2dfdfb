"""When envmgr's own EasyBuild is used, and each reason why not."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from envmgr.backends.easybuild.installation import Places, contents_sum, why_not_own
from tests.helpers.easybuild.small_installation import write_easybuild
from tests.helpers.easybuild.workshop import AM_ROOT
from tests.helpers.forked import forked

only_root = pytest.mark.skipif(not AM_ROOT, reason="only root gives files away")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    before = os.umask(0o022)
    try:
        found = write_easybuild(tmp_path / "venv")
    finally:
        os.umask(before)
    return found


def why_not(places: Places) -> str:
    return why_not_own("5.4.1", contents_sum(places), places)


def test_easybuild_of_the_lock_that_nobody_else_can_change_is_used(places: Places) -> None:
    assert why_not(places) == ""
    assert why_not_own("5.4.1", None, places) == "", "no lock asks"


def test_other_version(places: Places) -> None:
    wanted = contents_sum(places)
    assert why_not_own("5.4.0", wanted, places) == "it has easybuild-framework 5.4.1"
    easyblocks = places.packages / "easybuild_easyblocks-5.4.1.dist-info"
    renamed = easyblocks.rename(easyblocks.with_name("easybuild_easyblocks-5.3.0.dist-info"))
    assert why_not_own("5.4.1", wanted, places) == "it has easybuild-easyblocks 5.3.0"
    (renamed / "RECORD").unlink()
    renamed.rmdir()
    assert why_not_own("5.4.1", wanted, places) == "it has no easybuild-easyblocks"


def test_other_contents(places: Places) -> None:
    wanted = contents_sum(places)
    (places.packages / "easybuild/main.py").write_text("print('evil')\n")
    assert why_not_own("5.4.1", wanted, places) == f"its sha256 is {contents_sum(places)}, the lock says {wanted}"


def writable_file(places: Places) -> str:
    path = places.home / "easybuild/easyconfigs/z/zlib/zlib-1.3.1.eb"
    path.chmod(0o666)
    return f"{path} can be written by everyone"


def writable_folder(places: Places) -> str:
    path = places.packages / "easybuild/easyblocks/generic"
    path.chmod(0o777)
    return f"{path} can be written by everyone"


def writable_top(places: Places) -> str:
    path = places.packages / "easybuild"
    path.chmod(0o777)
    return f"{path} can be written by everyone"


def writable_parent(places: Places) -> str:
    path = places.home.parent
    path.chmod(0o777)
    return f"{path} can be written by everyone"


def link(places: Places) -> str:
    path = places.packages / "easybuild/main.py"
    elsewhere = path.rename(places.home / "main.py")
    path.symlink_to(elsewhere)
    return f"{path} is a link"


def half_installed(places: Places) -> str:
    path = places.home / "easybuild"
    path.rename(path.with_name("gone"))
    return f"{path}: No such file or directory"


@pytest.mark.parametrize("harm", [writable_file, writable_folder, writable_top, writable_parent, link, half_installed])
def test_what_others_could_change_or_is_not_whole_is_not_used(places: Places, harm: Callable[[Places], str]) -> None:
    wanted = contents_sum(places)
    said = harm(places)
    assert why_not_own("5.4.1", wanted, places) == said


@only_root
def test_file_of_another_user(places: Places) -> None:
    path = places.packages / "easybuild/main.py"
    os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)
    assert why_not(places) == f"{path} belongs to nobody, neither to you nor to root"


@only_root
def test_file_of_a_group_with_others_in_it(places: Places) -> None:
    path = places.packages / "easybuild/main.py"
    os.chown(path, 0, pwd.getpwnam("nobody").pw_gid)
    path.chmod(0o664)
    assert why_not(places) == f"{path} can be written by its group"


@only_root
def test_file_that_the_build_user_cannot_read(places: Places) -> None:
    assert as_nobody(lambda: why_not_own("5.4.1", None, places)) == f"nobody cannot read {places.packages}"
    with tempfile.TemporaryDirectory(dir="/tmp") as open_to_all:  # unlike pytest's folders
        Path(open_to_all).chmod(0o755)
        moved = Path(shutil.copytree(places.home, Path(open_to_all) / "venv"))
        there = Places(moved / places.packages.relative_to(places.home), moved)
        cannot_read(there)


def cannot_read(places: Places) -> None:
    """A file, then a folder."""
    path = places.packages / "easybuild/main.py"
    path.chmod(0o600)
    assert as_nobody(lambda: why_not_own("5.4.1", "0" * 64, places)) == f"nobody cannot read {path}"
    path.chmod(0o644)
    folder = path.with_name("easyblocks")
    folder.chmod(0o700)
    assert as_nobody(lambda: why_not_own("5.4.1", "0" * 64, places)) == f"nobody cannot read {folder}"


def as_nobody(ask: Callable[[], str]) -> str:
    """What `ask` returns in a process of that user."""
    nobody = pwd.getpwnam("nobody")
    reads, writes = os.pipe()

    def answer() -> None:
        os.setgroups([])
        os.setresgid(nobody.pw_gid, nobody.pw_gid, nobody.pw_gid)
        os.setresuid(nobody.pw_uid, nobody.pw_uid, nobody.pw_uid)
        os.write(writes, ask().encode())

    assert forked(answer) == 0
    os.close(writes)
    with os.fdopen(reads) as file:
        return file.read()
