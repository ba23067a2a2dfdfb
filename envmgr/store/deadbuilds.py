"""What a build that died left, as the job table knows it: its processes, its private folder, its row."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.jobtable import BuildRow, beats, kept_row, left_row, read_build_row, row_path
from envmgr.store.prefix import Install, Prefix
from envmgr.store.workfolder import end_work
from envmgr.system.locks import try_file_lock
from envmgr.system.processes import runs_here
from envmgr.system.run import Runner

_KEEP = 30 * 86400.0  # seconds that a row of another host is kept


def clear_dead_build(install: Install, runner: Runner, reporter: Reporter, *, own: Callable[[Install], None]) -> None:
    """Before the install is built: whatever a build of it that died left. The caller holds the install's lock.

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
                hint="mount it with locks that all nodes share (NFS: without nolock and local_lock), or build on one node at a time",
            )
    if row is not None and not runs_here(row):
        clear_row(install, row, reporter, own=own)


def clear_row(install: Install, row: BuildRow, reporter: Reporter, *, own: Callable[[Install], None]) -> None:
    """What a dead build of the install left besides it: its processes and its private folder, where that was here; what `own`
    removes, and its row. Of another host's the row is kept, beside the table: only that host can clear its folder.

    Raises OSError; EnvmgrError `orphans-stay`.
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
    """What dead builds of ours left on this host, though a run on another one has cleared the rest, and may have built it since.

    A row of a host that stays away goes after thirty days.
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
