"""The job table: one file under `<prefix>/var/jobs` for every build under way, so that the next run knows what a dead one left.

A row is touched every two seconds while its build lives. That is seen on every node, also where a file system keeps locks to
each node, and two nodes can both hold the lock of one install.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from envmgr.errors import EnvmgrError, InputError
from envmgr.store.prefix import Install
from envmgr.system.files import atomic_write, pretty_json
from envmgr.system.processes import Process, all_processes, this_process
from envmgr.system.pulse import beat_lately, beating, beats_within
from envmgr.system.reading import ROW, read_json
from envmgr.system.sandbox import PLACE
from envmgr.wording import utc_now

_WATCH = 10.0  # seconds to look for a touch of a row


@dataclass(frozen=True, slots=True)
class BuildRow(Process):
    """A build under way: the process of envmgr that makes `install` (its path relative to the prefix) since `started`.

    `work` is its private folder on that host, `slurm` the number of the Slurm job it runs in, or empty.
    """

    install: str
    started: str
    work: str
    slurm: str


@contextmanager
def recorded(install: Install, work: Path) -> Iterator[None]:
    """The row of this build in the table, for as long as it takes. Under the install's lock only."""
    with beating(row_path(install), _row_text(install, work)):
        yield


def leave_row(install: Install, work: Path) -> None:
    """A row as a dead build leaves it: by it the next run finds the private folder, which could not be removed. Raises EnvmgrError."""
    atomic_write(row_path(install), _row_text(install, work))


def _row_text(install: Install, work: Path) -> str:
    row = BuildRow(
        **asdict(this_process()),
        install=install.relative,
        started=utc_now(),
        work=str(work),
        slurm=os.environ.get("SLURM_JOB_ID", ""),
    )
    return pretty_json(asdict(row))


def left_row(install: Install) -> BuildRow | None:
    """The row that an earlier build of the install left behind; None without one, or with one that cannot be read."""
    return read_build_row(row_path(install))


def read_build_row(path: Path) -> BuildRow | None:
    """None without one, and for one that cannot be read."""
    try:
        return BuildRow(**read_json(path, ROW))
    except (OSError, InputError, ValueError, TypeError):
        return None


def beats(install: Install, check: Callable[[], None] = lambda: None) -> bool:
    """Whether a build of the install lives on some node: its row is touched while we look, for up to ten seconds.

    `check` is called now and then, and may raise.
    """
    return lives_perhaps(install) and beats_within(row_path(install), _WATCH, check)


def lives_perhaps(install: Install) -> bool:
    """As `beats`, without waiting: a row was touched less than a minute ago."""
    return beat_lately(row_path(install))


def row_path(install: Install) -> Path:
    return install.prefix.jobs / f"{install.entry.name}-{install.label}.json"


def kept_row(install: Install, row: BuildRow) -> Path:
    """Where a dead build's row is kept that only its own host can clear; no row of the table."""
    host = row.host.replace("/", "_")
    return install.prefix.jobs / f"{install.entry.name}-{install.label}.{host}.{row.pid}.left"


def end_processes_in(folder: str) -> int:
    """Kill what a dead build left running on this host: every process of ours that works below its private folder.

    Returns how many there were. EnvmgrError `orphans-stay` when one does not end.
    """
    mine: set[int] = set()
    ended: set[int] = set()
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
    """By its working folder, as others or as it sees it; or by its environment: builds are given a path below theirs in a variable
    `ENVMGR_…`.
    """
    with suppress(OSError):
        place = Path(f"/proc/{pid}/root{PLACE}").stat()
        if any(os.path.samestat(place, work.stat()) for work in Path(folder).iterdir()):
            return True
    with suppress(OSError):
        if (Path(f"/proc/{pid}/cwd").readlink() / "x").is_relative_to(folder):
            return True
    with suppress(OSError):
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        return re.search(rb"(^|\0)ENVMGR_\w+=" + re.escape(os.fsencode(folder)) + b"/", environ) is not None
    return False
