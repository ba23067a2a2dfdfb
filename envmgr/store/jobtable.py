"""The job table: builds under way, and the installs that running commands use."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Reporter
from envmgr.store.prefix import Install, Prefix
from envmgr.system.files import atomic_write, clear_temporaries, pretty_json
from envmgr.system.locks import file_lock, try_file_lock
from envmgr.system.processes import Process, all_processes, runs_here, this_process
from envmgr.system.pulse import beat_lately, beating, beats_within, renew_listing
from envmgr.system.run import Runner
from envmgr.system.sandbox import PLACE
from envmgr.system.untrusted_files import ROW, read_json
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
    """Yield the row of this build in the table, which exists as long as the block. Only under the install's lock."""
    with beating(row_path(install), _row_text(install, work)):
        yield


def leave_row(install: Install, work: Path) -> None:
    """Write a row as a dead build leaves it: the next run finds by it the private folder that could not be removed.
    Raise EnvmgrError.
    """
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
    """Return the row that an earlier build of the install left; None without one, or if it cannot be read."""
    return read_build_row(row_path(install))


def read_build_row(path: Path) -> BuildRow | None:
    """Return the row; None if there is none, or it cannot be read."""
    try:
        return BuildRow(**read_json(path, ROW))
    except (OSError, InputError, ValueError, TypeError):
        return None


def beats(install: Install, check: Callable[[], None] = lambda: None) -> bool:
    """Return whether a build of the install lives on some node: its row is touched while we look, for up to ten
    seconds.

    `check` is called now and then, and may raise.
    """
    return lives_perhaps(install) and beats_within(row_path(install), _WATCH, check)


def lives_perhaps(install: Install) -> bool:
    """Return as `beats`, without waiting: a row was touched less than a minute ago."""
    return beat_lately(row_path(install))


def row_path(install: Install) -> Path:
    return install.prefix.jobs / f"{install.entry.name}-{install.label}.json"


def kept_row(install: Install, row: BuildRow) -> Path:
    """Return the place for a dead build's row that only its own host can clear. It is not a row of the table."""
    host = row.host.replace("/", "_")
    return install.prefix.jobs / f"{install.entry.name}-{install.label}.{host}.{row.pid}.left"


def end_processes_in(folder: str) -> int:
    """Kill the processes that a dead build left on this host, and return their number.

    These are the processes of this user that work below the build's private folder. Raises EnvmgrError `orphans-stay`
    if one does not end.
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
    """Return whether the process works below the folder, by its working folder as others or it sees it, or by its
    environment: builds get a path below their folder in a variable `ENVMGR_…`.
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


@contextmanager
def holding(
    prefix: Prefix, paths: Iterable[str], runner: Runner, reporter: Reporter, *, generation: int | None = None
) -> Iterator[None]:
    """Keep installs (relative to the prefix) from `gc` while the body runs. Look again at what is there once inside.

    The hold is written under a lock that `gc` holds while it chooses and removes: either gc sees the hold, or we see
    what gc took. With the number of a `generation`, that one is being staged; FileExistsError if another run holds it,
    or held it.
    """
    me = this_process()
    path = prefix.holds / f"{me.host}-{me.pid}-{time.monotonic_ns()}.json"
    if generation is not None:
        path = _staging_row(prefix, generation)
    row = {**asdict(me), "since": utc_now(), "installs": sorted(set(paths))}

    def waiting(holder: str) -> None:
        reporter.say(f"waiting for {holder}, which removes what is unused")

    with ExitStack() as stack:
        with file_lock(prefix.hold_lock, on_wait=waiting, check=runner.raise_if_cancelled):
            stack.enter_context(beating(path, pretty_json(row), anew=generation is not None))
        yield


def is_staged(prefix: Prefix, generation: int) -> bool:
    """Return whether a living run stages it, by the name of its row: on NFS a list of rows may be an old one."""
    return _lives(_staging_row(prefix, generation))


def held_installs(prefix: Prefix, *, renew: bool) -> set[str]:
    """Return what living runs hold, by path relative to the prefix. A run on another host lives by its pulse. `renew`:
    read the newest state, also on NFS.
    """
    found: set[str] = set()
    if renew:
        renew_listing(prefix.holds)
    for path in prefix.holds.glob("*.json"):
        with suppress(OSError, InputError, ValueError, KeyError, TypeError):
            if _lives(path):
                found |= {str(each) for each in read_json(path, ROW)["installs"]}
    return found


def remove_dead_holds(prefix: Prefix) -> None:
    """Remove holds of dead runs, under the lock under which holds are made, because a name is used again.

    If that lock is held, a later run removes them.
    """
    for folder in (prefix.holds, prefix.jobs, prefix.locks):
        clear_temporaries(folder)
    if not any(prefix.holds.glob("*.json")):  # then nothing is written: no lock, and no mark of one
        return
    with suppress(EnvmgrError), try_file_lock(prefix.hold_lock) as free:  # who may not write there has none
        for path in prefix.holds.glob("*.json") if free else ():
            if not _lives(path):
                with suppress(OSError):
                    path.unlink(missing_ok=True)


def _lives(path: Path) -> bool:
    """Return whether the run of a row lives; for a row that cannot be read, which may be half-written, by its pulse."""
    try:
        row = read_json(path, ROW)
        process = Process(str(row["host"]), str(row["boot"]), int(str(row["pid"])), int(str(row["ticks"])))
    except (OSError, InputError, ValueError, KeyError, TypeError):
        return beat_lately(path)
    return runs_here(process) if process.host == socket.gethostname() else beat_lately(path)


def _staging_row(prefix: Prefix, generation: int) -> Path:
    return prefix.holds / f"generation-{generation:04d}.json"
