"""What builds leave: a half install, its module, EasyBuild's lock, processes. Under the install's lock only."""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import suppress
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.jobtable import BuildRow, beats, end_processes_in, kept_row, left_row, read_row, row_path
from envmgr.store.prefix import Install, Prefix
from envmgr.system.files import remove_tree, try_file_lock
from envmgr.system.processes import runs_here
from envmgr.system.run import Runner

_KEEP = 30 * 86400.0  # seconds that a row of another host is kept


def clear(install: Install, runner: Runner, reporter: Reporter) -> None:
    """What a build that died left: its processes here, its half install, its module, EasyBuild's lock. We hold our own lock.

    Raises:
        EnvmgrError: `locks-not-shared`, for a build that lives on another node; `easybuild-locked`, for a lock that no build of
        ours left.
    """
    row = left_row(install)
    if row is not None and row.host != socket.gethostname():
        reporter.say(f"{install.entry}: looking whether a build on {row.host} is still alive")
        if beats(install, runner.raise_if_cancelled):
            raise EnvmgrError(
                "locks-not-shared", f"{install.entry} is being built on {row.host}, and this node holds its lock too",
                context=f"the file system of {install.prefix.root} keeps locks to each node",
                hint="mount it with locks that all nodes share (NFS: without nolock and local_lock), or build on one node at a time",
            )  # fmt: skip
    if row is not None and not runs_here(row):
        clear_row(install, row, reporter)
    if (lock := _lock_of(install)).exists():
        raise EnvmgrError(
            "easybuild-locked", f"EasyBuild is building {install.entry}, or died of it",
            context=[str(lock), "no build of envmgr left it: it is not in the job table"],
            hint=f"make sure that no `eb` runs for it, then: rmdir {lock}",
        )  # fmt: skip
    clear_kept_rows(install.prefix, reporter)
    remove_half(install)


def clear_row(install: Install, row: BuildRow, reporter: Reporter) -> None:
    """What a dead build of the install left besides it: its processes and its private folder, where that was here; EasyBuild's
    lock, and its row. Of another host's the row is kept, beside the table: only that host can clear its folder.

    Raises OSError; EnvmgrError `orphans-stay`.
    """
    here = row.host == socket.gethostname()
    if here:
        _end_work(install, Path(row.work), reporter)
    reporter.log(f"{install.entry}: {row_path(install)} is of a build that died")
    remove_tree(_lock_of(install))
    if here:
        row_path(install).unlink(missing_ok=True)
    else:
        with suppress(FileNotFoundError):
            row_path(install).replace(kept_row(install, row))


def clear_kept_rows(prefix: Prefix, reporter: Reporter) -> None:
    """What dead builds of ours left on this host, though a run on another one has cleared the rest, and may have built it since.

    A row of a host that stays away goes after thirty days.
    """
    for path in sorted(prefix.jobs.glob("*.left")):
        row = read_row(path)
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
                _end_work(install, Path(row.work), reporter)
                path.unlink(missing_ok=True)
    except (OSError, EnvmgrError) as error:
        reporter.say(f"warning: cannot clear what a dead build of {install.entry} left in {row.work}: {error}")


def _end_work(install: Install, folder: Path, reporter: Reporter) -> None:
    """The row is not trusted: only a folder that our builds make is one."""
    if folder.name != f"{install.entry.name}-{install.label}" or not folder.parent.name.startswith("envmgr-build-"):
        return
    if not folder.is_absolute() or ".." in folder.parts:
        return
    if ended := end_processes_in(str(folder)):
        processes = "process" if ended == 1 else "processes"
        reporter.say(f"{install.entry}: ended {ended} {processes} of a build that was killed")
    if _is_ours(folder.parent) and _is_ours(folder):  # then nobody else can put a link there meanwhile
        remove_tree(folder)
        with suppress(OSError):
            folder.parent.rmdir()  # only an empty one goes


def _is_ours(folder: Path) -> bool:
    """A folder of this user's, and no link to one."""
    return folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.geteuid()


def remove_half(install: Install) -> None:
    remove_tree(install.path)
    install.easybuild_module.unlink(missing_ok=True)


def lock_folder(install: Install) -> Path:
    return install.prefix.jobs / "easybuild-locks"


def _lock_of(install: Install) -> Path:
    """EasyBuild names its lock by the install's path. Source: easybuild-framework, `create_lock`."""
    return lock_folder(install) / (str(install.path).replace("/", "_") + ".lock")


def remove_lock(install: Install) -> None:
    """EasyBuild, killed, leaves it; it was our own EasyBuild, whose processes have all ended."""
    with suppress(OSError):
        remove_tree(_lock_of(install))


def end_daemons(install: Install, folder: Path, reporter: Reporter) -> None:
    """Some builds start servers of their own (bazel does), in sessions of their own: they end with the build, too."""
    with suppress(EnvmgrError):  # what the build itself says is told
        if ended := end_processes_in(str(folder)):
            reporter.log(f"{install.entry}: ended {ended} processes that the build left running")
