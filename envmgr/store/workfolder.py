"""The private folder of a build on the host that builds: made empty, by one rule, so that what a dead build left can be found."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.catalog.site_file import is_plain_path
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.jobtable import end_processes_in, leave_row, recorded
from envmgr.store.prefix import Install
from envmgr.system.files import explain_os_error, remove_tree
from envmgr.system.scratch import temporary_files
from envmgr.system.usernames import own_home, own_name

_BEGIN = "envmgr-build-"


def work_folder(site: Site, install: Install) -> Path:
    """Where it is compiled: the same path each time, as paths of a build get into what is built.

    In the folder for temporary files anybody can take the name first, and would stop all builds: then it is below the user's own cache.
    """
    name = f"{_BEGIN}{own_name().replace(' ', '-')}"
    base = site.build_dir or temporary_files()
    if site.build_dir is None and _is_anothers(base / name):
        base = Path(own_home(os.environ.get("HOME"))) / ".cache" / "envmgr"
    return base / name / f"{install.entry.name}-{install.label}"


@contextmanager
def build_folder(install: Install, folder: Path) -> Iterator[None]:
    """`private_folder`, with a row in the job table, which stays where the folder could not be removed. Errors as there."""
    try:
        with recorded(install, folder), private_folder(folder):
            yield
    finally:
        if _is_ours(folder):
            with suppress(OSError, EnvmgrError):
                leave_row(install, folder)


@contextmanager
def private_folder(folder: Path) -> Iterator[None]:
    """An empty folder that no other user can write, removed at the end.

    EnvmgrError `build-folder` where another user made it, or where nothing can be compiled.
    """
    if not is_plain_path(folder):
        raise EnvmgrError(
            "build-folder",
            f"nothing can be compiled in `{folder.parent}`",
            context="spaces, colons, quotes and shell characters do not survive makefiles",
            hint="name another place in site.yaml (build_dir), or in $TMPDIR",
        )
    with explain_os_error(folder):
        for last in (False, False, True):
            try:
                _make_private(folder)
                break
            except FileNotFoundError:  # a build beside us ended, and removed the folder that we share
                if last:
                    raise
    try:
        yield
    finally:
        with suppress(OSError):
            remove_tree(folder)
            folder.parent.rmdir()


def _make_private(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _is_anothers(folder.parent):
        raise EnvmgrError(
            "build-folder",
            f"{folder.parent} is not ours alone",
            context="software is compiled there: a user who can write it decides what is installed",
            hint="remove it, or name another place in site.yaml: build_dir",
        )
    remove_tree(folder)
    folder.mkdir()


def end_work(install: Install, folder: Path, reporter: Reporter) -> None:
    """End what a dead build of the install left running here, and remove its folder.

    The folder's name comes from a row, which is not trusted: only a folder that our builds make is one.

    Raises OSError; EnvmgrError `orphans-stay`.
    """
    if folder.name != f"{install.entry.name}-{install.label}" or not folder.parent.name.startswith(_BEGIN):
        return
    if not folder.is_absolute() or ".." in folder.parts:
        return
    if ended := end_processes_in(str(folder)):
        processes = "process" if ended == 1 else "processes"
        reporter.say(f"{install.entry}: ended {ended} {processes} of a build that was killed")
    if _is_ours(folder.parent) and _is_ours(folder):  # then no other user can put a link there meanwhile
        remove_tree(folder)
        with suppress(OSError):
            folder.parent.rmdir()  # only an empty one goes


def _is_anothers(folder: Path) -> bool:
    """Whether something is there that another user made, or can write."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    return status.st_uid != os.geteuid() or bool(status.st_mode & 0o022) or not stat.S_ISDIR(status.st_mode)


def _is_ours(folder: Path) -> bool:
    """A folder of this user's, and no link to one."""
    return folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.geteuid()
