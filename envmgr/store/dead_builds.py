"""The leftovers of a dead build: its processes, its private folder, its row in the job table; and their removal."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.build_folders import BEGIN, is_own_folder
from envmgr.store.jobtable import BuildRow, beats, kept_row, left_row, lives_elsewhere, read_build_row, row_path
from envmgr.store.prefix import Install, Prefix
from envmgr.system.locks import try_file_lock
from envmgr.system.processes import all_processes, runs_here
from envmgr.system.run import Runner
from envmgr.system.safe_paths import remove_below
from envmgr.system.sandbox import PLACE
from envmgr.system.scratch import folder_lock

_KEEP = 30 * 86400.0  # seconds that a row of another host is kept


def clear_dead_build(install: Install, runner: Runner, reporter: Reporter, *, own: Callable[[Install], None]) -> None:
    """Remove, before the install is built, what a dead build of it left. The caller holds the install's lock.

    `own` removes what only the backend knows of.

    Raises:
        OSError; EnvmgrError: `locks-not-shared`, for a build that lives on another node; `orphans-stay`;
            `format-unknown`.
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
    # The row goes last: after a kill here the next run still finds it, and clears the rest.
    own(install)
    if here:
        row_path(install).unlink(missing_ok=True)
    else:
        with suppress(FileNotFoundError):
            row_path(install).replace(kept_row(install, row))


def clear_dead_rows(prefix: Prefix, reporter: Reporter, *, own: Callable[[Install], None]) -> None:
    """Remove rows of dead builds, with the files that they name: a later build may never ask for the same install.

    `own` is as in `clear_dead_build`.
    """
    for path in sorted(prefix.jobs.glob("*.json")):
        row = None
        with suppress(EnvmgrError):  # in another format: for the envmgr that wrote it
            row = read_build_row(path)
        # A row is not trusted: only the path of an install may become one.
        if row is None or not re.fullmatch(r"store/[^/]+/[^/]+-[0-9a-f]{8}", row.install):
            continue
        install = prefix.install_at(row.install)
        with try_file_lock(install.lock) as free:
            # Read again under the lock: that build may have ended, or another one may have begun.
            if not free or (row := left_row(install)) is None or runs_here(row):
                continue
            try:
                if lives_elsewhere(install):
                    continue
                clear_row(install, row, reporter, own=own)
            except (OSError, EnvmgrError) as error:  # only its own install needs that place
                reporter.say(f"warning: cannot clear what a dead build of {install.entry} left in {row.work}: {error}")


def clear_kept_rows(prefix: Prefix, reporter: Reporter) -> None:
    """Clear what dead builds of this user left on this host, even if a run on another host has cleared the rest.

    That run may also have built it since. A row of a host that stays away is removed after thirty days.
    """
    for path in sorted(prefix.jobs.glob("*.left")):
        with suppress(OSError, EnvmgrError):  # another run's, which was quicker; or in another format
            status = path.stat()
            if time.time() - status.st_mtime > _KEEP:
                path.unlink()
                continue
            row = read_build_row(path)
            # Only a row that this user wrote counts, because the folder that it names is removed.
            if row is not None and row.host == socket.gethostname() and status.st_uid == os.geteuid():
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


def end_work(install: Install, folder: Path, reporter: Reporter) -> None:
    """End what a dead build of the install left running here, and remove its folder.

    The folder's name comes from a row, which is not trusted: only a folder that our builds make is one.

    Raises OSError; EnvmgrError `orphans-stay`.
    """
    if folder.name != f"{install.entry.name}-{install.label}" or not folder.parent.name.startswith(BEGIN):
        return
    if not folder.is_absolute() or ".." in folder.parts:
        return
    with ExitStack() as stack:
        own = is_own_folder(folder.parent) and is_own_folder(
            folder
        )  # then no other user can put a link there meanwhile
        with suppress(FileNotFoundError, PermissionError):  # gone; closed by its build
            if own and not stack.enter_context(folder_lock(folder)):
                return  # a build for another prefix has it now, and cleared it before
        if ended := end_processes_in(str(folder)):
            processes = "process" if ended == 1 else "processes"
            reporter.say(f"{install.entry}: ended {ended} {processes} of a build that was killed")
        if own:
            remove_below(folder.parent, folder)
            with suppress(OSError):
                folder.parent.rmdir()  # only an empty one goes


def end_processes_in(folder: str) -> int:
    """Kill the processes that a dead build left on this host, and return their number.

    These are the processes of this user that work below the build's private folder. Raises EnvmgrError `orphans-stay`
    if one does not end.
    """
    mine: set[int] = set()
    ended: set[int] = set()
    # A compiler driver may start others while it is being killed: look again until none is left, for five seconds in
    # all.
    for _ in range(50):
        mine = {pid for pid in _own_processes() if _is_below(pid, folder)} - {os.getpid()}
        if not mine:
            break
        ended |= mine
        for pid in mine:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    else:
        raise EnvmgrError("orphans-stay", f"processes of a dead build do not end: {sorted(mine)}", context=folder)
    return len(ended)


def _own_processes() -> Iterator[int]:
    for pid in all_processes():
        with suppress(OSError):
            if Path(f"/proc/{pid}").stat().st_uid == os.geteuid():
                yield pid


def _is_below(pid: int, folder: str) -> bool:
    """Return whether the process works below the folder, by its working folder as others or it sees it, or by its
    environment: builds get a path below their folder in a variable `ENVMGR_…`.
    """
    with suppress(OSError):
        # A build with mounts of its own works at PLACE: only its own root shows which folder that is.
        place = Path(f"/proc/{pid}/root{PLACE}").stat()
        if any(os.path.samestat(place, work.stat()) for work in Path(folder).iterdir()):
            return True
    with suppress(OSError):
        if (Path(f"/proc/{pid}/cwd").readlink() / "x").is_relative_to(folder):
            return True
    with suppress(OSError):
        # A process may have gone to another folder: its environment still names the one of its build.
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        return re.search(rb"(^|\0)ENVMGR_\w+=" + re.escape(os.fsencode(folder)) + b"/", environ) is not None
    return False
