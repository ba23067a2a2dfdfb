"""The work folders of builds: private, and the same path each time."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.catalog.site_file import is_plain_path
from envmgr.errors import EnvmgrError
from envmgr.store.jobtable import leave_row, recorded
from envmgr.store.prefix import Install
from envmgr.system.files import explain_os_error, remove_tree
from envmgr.system.scratch import temporary_files
from envmgr.system.usernames import own_home, own_name

BEGIN = "envmgr-build-"


def work_folder(site: Site, install: Install) -> Path:
    """Return the folder to compile in: the same path each time, because paths of a build get into its results.

    In the folder for temporary files any user can take the name first, and would stop all builds. It is then below the
    user's own cache.
    """
    name = f"{BEGIN}{own_name().replace(' ', '-')}"
    base = site.build_dir or temporary_files()
    if site.build_dir is None and _is_anothers(base / name):
        base = Path(own_home(os.environ.get("HOME"))) / ".cache" / "envmgr"
    return base / name / f"{install.entry.name}-{install.label}"


@contextmanager
def build_folder(install: Install, folder: Path) -> Iterator[None]:
    """Yield in a `private_folder`, with a row in the job table that stays if the folder cannot be removed. Errors as
    there.
    """
    try:
        with recorded(install, folder), private_folder(folder):
            yield
    finally:
        if is_own_folder(folder):
            with suppress(OSError, EnvmgrError):
                leave_row(install, folder)


@contextmanager
def private_folder(folder: Path) -> Iterator[None]:
    """Yield an empty folder that no other user can write, and remove it at the end.

    Raises EnvmgrError `build-folder` if another user made it, or if nothing can be compiled there.
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
            except FileNotFoundError:  # a parallel build ended, and removed the shared folder
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
            f"{folder.parent} can be changed by other users",
            context="software is compiled there: a user who can write it decides what is installed",
            hint="remove it, or name another place in site.yaml: build_dir",
        )
    remove_tree(folder)
    folder.mkdir()


def _is_anothers(folder: Path) -> bool:
    """Return whether another user made what lies there, or can write it."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    return status.st_uid != os.geteuid() or bool(status.st_mode & 0o022) or not stat.S_ISDIR(status.st_mode)


def is_own_folder(folder: Path) -> bool:
    """Return whether it is a folder of this user, and no link to one."""
    return folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.geteuid()
