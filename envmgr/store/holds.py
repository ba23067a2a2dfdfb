"""Holds: what a run stands on, so that `gc` leaves it alone. One file a run under `<prefix>/var/jobs/holds`, with a pulse.

A build of hours needs installs that no generation names: what only builds need, and what it made and has not published yet.
A generation that is staged has a file by its number: as long as that beats, no other run takes it for one that a kill left.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.files import clear_temporaries, pretty_json
from envmgr.system.locks import file_lock, try_file_lock
from envmgr.system.processes import Process, runs_here, this_process
from envmgr.system.pulse import beat_lately, beating, renew_listing
from envmgr.system.reading import ROW, read_json
from envmgr.system.run import Runner
from envmgr.wording import utc_now


@contextmanager
def holding(
    prefix: Prefix, paths: Iterable[str], runner: Runner, reporter: Reporter, *, generation: int | None = None
) -> Iterator[None]:
    """Keep installs (relative to the prefix) from `gc` for as long as it takes. Look again at what is there, once inside.

    What is held is written under a lock that `gc` holds while it chooses and removes: either it sees the hold, or we see what
    it took. With the number of a `generation`, that one is being staged; FileExistsError where another run holds it, or held it.
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
    """Whether a living run stages it. By the name of its row: a list of them may be an old one on NFS."""
    return _lives(_staging_row(prefix, generation))


def held_installs(prefix: Prefix, *, renew: bool) -> set[str]:
    """What living runs hold, by path relative to the prefix. One on another host lives by its pulse. `renew`: as of now on NFS, too."""
    found: set[str] = set()
    if renew:
        renew_listing(prefix.holds)
    for path in prefix.holds.glob("*.json"):
        with suppress(OSError, InputError, ValueError, KeyError, TypeError):
            if _lives(path):
                found |= {str(each) for each in read_json(path, ROW)["installs"]}
    return found


def remove_dead_holds(prefix: Prefix) -> None:
    """Under the lock under which they are made: a name is used again. Where that is held, a later run does it."""
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
    """One that cannot be read, which its run may be about to write, lives by its pulse."""
    try:
        row = read_json(path, ROW)
        process = Process(str(row["host"]), str(row["boot"]), int(str(row["pid"])), int(str(row["ticks"])))
    except (OSError, InputError, ValueError, KeyError, TypeError):
        return beat_lately(path)
    return runs_here(process) if process.host == socket.gethostname() else beat_lately(path)


def _staging_row(prefix: Prefix, generation: int) -> Path:
    return prefix.holds / f"generation-{generation:04d}.json"
