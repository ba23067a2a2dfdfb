"""The job table: builds under way, and the installs that running commands use."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Reporter
from envmgr.store.prefix import Install, Prefix
from envmgr.system.files import atomic_write, clear_temporaries, pretty_json
from envmgr.system.locks import file_lock, try_file_lock
from envmgr.system.models import require_format
from envmgr.system.processes import Process, runs_here, this_process
from envmgr.system.pulse import beat_lately, beating, beats_within, renew_listing
from envmgr.system.run import Runner
from envmgr.system.untrusted_files import ROW, read_json
from envmgr.wording import utc_now

FORMAT = 1
"""The number of the format of rows, of builds and of what running commands use; another one is refused."""

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
    slurm = os.environ.get("SLURM_JOB_ID", "")
    row = BuildRow(**asdict(this_process()), install=install.relative, started=utc_now(), work=str(work), slurm=slurm)
    return pretty_json({"schema": FORMAT, **asdict(row)})


def left_row(install: Install) -> BuildRow | None:
    """Return the row that an earlier build of the install left. None and errors as `read_build_row`."""
    return read_build_row(row_path(install))


def read_build_row(path: Path) -> BuildRow | None:
    """Return the row; None if there is none, or it cannot be read. Raise EnvmgrError `format-unknown`."""
    try:
        return BuildRow(**_read_row(path))
    except (OSError, InputError, ValueError, TypeError):
        return None


def _read_row(path: Path) -> dict[str, Any]:
    """Return the fields of a row. Raise EnvmgrError `format-unknown`; OSError, InputError, ValueError."""
    row = require_format(read_json(path, ROW), FORMAT, path)
    return {key: value for key, value in row.items() if key != "schema"}


def beats(install: Install, check: Callable[[], None] = lambda: None) -> bool:
    """Return whether a build of the install lives on some node: its row is touched while we look, for up to ten
    seconds.

    `check` is called now and then, and may raise.
    """
    return lives_perhaps(install) and beats_within(row_path(install), _WATCH, check)


def lives_perhaps(install: Install) -> bool:
    """Return as `beats`, without waiting: a row was touched less than a minute ago."""
    return beat_lately(row_path(install))


def lives_elsewhere(install: Install) -> bool:
    """Return whether another host builds the install, on a file system that keeps locks to each client.

    A row in a format that is not known says nothing of its host: only its pulse counts.
    """
    try:
        row = left_row(install)
    except EnvmgrError:
        return lives_perhaps(install)
    return row is not None and row.host != socket.gethostname() and lives_perhaps(install)


def row_path(install: Install) -> Path:
    return install.prefix.jobs / f"{install.entry.name}-{install.label}.json"


def kept_row(install: Install, row: BuildRow) -> Path:
    """Return the place for a dead build's row that only its own host can clear. It is not a row of the table."""
    host = row.host.replace("/", "_")
    return install.prefix.jobs / f"{install.entry.name}-{install.label}.{host}.{row.pid}.left"


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
    row = {"schema": FORMAT, **asdict(me), "since": utc_now(), "installs": sorted(set(paths))}

    def waiting(holder: str) -> None:
        reporter.say(f"waiting for {holder}, which removes what is unused")

    with ExitStack() as stack:
        # Only the writing needs the lock: a hold lasts as long as a build, and others must be able to hold too.
        with file_lock(prefix.hold_lock, on_wait=waiting, check=runner.raise_if_cancelled):
            stack.enter_context(beating(path, pretty_json(row), anew=generation is not None))
        yield


def is_staged(prefix: Prefix, generation: int) -> bool:
    """Return whether a living run stages it, by the name of its row: on NFS a list of rows may be an old one."""
    return _lives(_staging_row(prefix, generation))


def held_installs(prefix: Prefix, *, renew: bool) -> set[str]:
    """Return what living runs hold, by path relative to the prefix. A run on another host lives by its pulse. `renew`:
    read the newest state, also on NFS.

    Raise EnvmgrError `format-unknown` for a living run whose row says in another format what it holds.
    """
    found: set[str] = set()
    if renew:
        renew_listing(prefix.holds)
    for path in prefix.holds.glob("*.json"):
        # A row may vanish, or be half-written, while it is read.
        with suppress(OSError, InputError, ValueError, KeyError, TypeError):
            if _lives(path):
                found |= {str(each) for each in _read_row(path)["installs"]}
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
        row = _read_row(path)
        process = Process(str(row["host"]), str(row["boot"]), int(str(row["pid"])), int(str(row["ticks"])))
    except (OSError, EnvmgrError, ValueError, KeyError, TypeError):
        return beat_lately(path)
    # On this host the process table answers at once; a pulse must be silent for a minute before its run is dead.
    return runs_here(process) if process.host == socket.gethostname() else beat_lately(path)


def _staging_row(prefix: Prefix, generation: int) -> Path:
    return prefix.holds / f"generation-{generation:04d}.json"
