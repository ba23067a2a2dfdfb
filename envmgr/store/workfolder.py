"""The work folders of builds, and those that a dead build left."""

from __future__ import annotations

import os
import re
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.catalog.site_file import is_plain_path
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.jobtable import (
    BuildRow,
    beats,
    end_processes_in,
    kept_row,
    leave_row,
    left_row,
    read_build_row,
    recorded,
    row_path,
)
from envmgr.store.prefix import Install, Prefix
from envmgr.system.files import explain_os_error, remove_tree
from envmgr.system.locks import try_file_lock
from envmgr.system.processes import runs_here
from envmgr.system.run import Runner
from envmgr.system.scratch import temporary_files
from envmgr.system.usernames import own_home, own_name

_BEGIN = "envmgr-build-"


def work_folder(site: Site, install: Install) -> Path:
    """Return the folder to compile in: the same path each time, because paths of a build get into its results.

    In the folder for temporary files any user can take the name first, and would stop all builds. It is then below the
    user's own cache.
    """
    name = f"{_BEGIN}{own_name().replace(' ', '-')}"
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
        if _is_ours(folder):
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
    """Return whether another user made what lies there, or can write it."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    return status.st_uid != os.geteuid() or bool(status.st_mode & 0o022) or not stat.S_ISDIR(status.st_mode)


def _is_ours(folder: Path) -> bool:
    """Return whether it is a folder of this user, and no link to one."""
    return folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.geteuid()


_KEEP = 30 * 86400.0  # seconds that a row of another host is kept


def clear_dead_build(install: Install, runner: Runner, reporter: Reporter, *, own: Callable[[Install], None]) -> None:
    """Remove, before the install is built, what a dead build of it left. The caller holds the install's lock.

    `own` removes what only the backend knows of.

    Raises:
        OSError; EnvmgrError: `locks-not-shared`, for a build that lives on another node; `orphans-stay`.
    """
    row = left_row(install)
    if row is not None and row.host != socket.gethostname():
        reporter.say(f"{install.entry}: looking whether a build on {row.host} is still alive")
        if beats(install, runner.raise_if_cancelled):
            raise EnvmgrError(
                "locks-not-shared",
                f"{install.entry} is being built on {row.host}, and this node holds its lock too",
                context=f"the file system of {install.prefix.root} keeps locks to each node",
                hint="mount it with locks that all nodes share (NFS: without nolock and local_lock), or build "
                "on one node at a time",
            )
    if row is not None and not runs_here(row):
        clear_row(install, row, reporter, own=own)


def clear_row(install: Install, row: BuildRow, reporter: Reporter, *, own: Callable[[Install], None]) -> None:
    """Clear what a dead build of the install left: its processes and its private folder, if it ran here; what `own`
    removes; its row.

    The row of another host's build is kept, beside the table: only that host can clear its folder.

    Raise OSError; EnvmgrError `orphans-stay`.
    """
    here = row.host == socket.gethostname()
    if here:
        end_work(install, Path(row.work), reporter)
    reporter.log(f"{install.entry}: {row_path(install)} is of a build that died")
    own(install)
    if here:
        row_path(install).unlink(missing_ok=True)
    else:
        with suppress(FileNotFoundError):
            row_path(install).replace(kept_row(install, row))


def clear_kept_rows(prefix: Prefix, reporter: Reporter) -> None:
    """Clear what dead builds of this user left on this host, even if a run on another host has cleared the rest.

    That run may also have built it since. A row of a host that stays away is removed after thirty days.
    """
    for path in sorted(prefix.jobs.glob("*.left")):
        row = read_build_row(path)
        with suppress(OSError):  # another run's, which was quicker
            status = path.stat()
            if time.time() - status.st_mtime > _KEEP:
                path.unlink()
            elif row is not None and row.host == socket.gethostname() and status.st_uid == os.geteuid():
                _clear_kept_row(prefix, path, row, reporter)


def _clear_kept_row(prefix: Prefix, path: Path, row: BuildRow, reporter: Reporter) -> None:
    if not re.fullmatch(r"store/[^/]+/[^/]+-[0-9a-f]{8}", row.install):
        return
    install = prefix.install_at(row.install)
    try:
        with try_file_lock(install.lock) as free:
            if free and path.exists():  # else a build of it may compile in that very folder now
                reporter.log(f"{install.entry}: {path} is of a build that died here")
                end_work(install, Path(row.work), reporter)
                path.unlink(missing_ok=True)
    except (OSError, EnvmgrError) as error:
        reporter.say(f"warning: cannot clear what a dead build of {install.entry} left in {row.work}: {error}")
