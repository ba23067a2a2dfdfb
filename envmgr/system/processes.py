"""Processes by what the kernel says of them, and children of this one: their pipes, and the ladder that ends them."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"
# Fields of /proc/PID/stat, counted from the one after the name, which is in brackets and may hold anything.
_STATE, _GROUP, _START = 0, 2, 19


@dataclass(frozen=True, slots=True)
class Process:
    """A process. `ticks` is its start in clock ticks since `boot`: a number is used again, the pair is not."""

    host: str
    boot: str
    pid: int
    ticks: int


def this_process() -> Process:
    return Process(socket.gethostname(), _boot(), os.getpid(), _ticks(os.getpid()) or 0)


def is_here(process: Process) -> bool:
    """Return whether it is, or was, one of this host since it booted."""
    return process.host == socket.gethostname() and process.boot == _boot()


def host_mark() -> str:
    """Return eight letters and digits for this host, for names of files that only this host can recognise as a dead
    run's.
    """
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def runs_here(process: Process) -> bool:
    """Return whether it still runs on this host; False for a process of another host."""
    return is_here(process) and _ticks(process.pid) == process.ticks


def group_runs(group: int) -> bool:
    """Return whether a process of the group has not ended: zombies, which may never be collected, do not count."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's, but there
        pass
    # killpg(2) also succeeds for a group of which only zombies are left, so /proc decides.
    stats = (_stat(pid) for pid in all_processes())
    return any(stat and int(stat[_GROUP]) == group and stat[_STATE] not in "ZX" for stat in stats)


def all_processes() -> Iterator[int]:
    """Return the numbers of all processes; some may have ended since."""
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _ticks(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None if it has ended, whether or not it was collected."""
    stat = _stat(pid)
    return int(stat[_START]) if stat and stat[_STATE] not in "ZX" else None


def _stat(pid: int) -> list[str]:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    # The last bracket: a program may have brackets in its own name.
    return text.rpartition(")")[2].split()


def _boot() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


POLL = 0.1  # seconds between looks at the cancel flag
GRACE = 2.0  # seconds between SIGTERM and SIGKILL, and for children that hold the output after their parent
_PAUSE = 0.025  # seconds between looks at a child that has to end


def in_memory(text: str = "") -> IO[bytes]:
    """Return a file in memory, to be read from its beginning: the complete input of a child, however late it reads.

    It is not a pipe, because `Popen.communicate` writes no more of one after a timeout. Tried on Python 3.11.
    """
    file = os.fdopen(os.memfd_create("envmgr"), "w+b")
    # File names that are not UTF-8 hold surrogates, and must reach the child as the same bytes.
    file.write(text.encode("utf-8", "surrogateescape"))
    file.seek(0)
    return file


def signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


@dataclass(slots=True)
class Leaving:
    """A process that has to end; `term` and `kill` are when it gets these signals, by time.monotonic()."""

    process: subprocess.Popen[bytes]
    term: float
    kill: float
    group: bool = True  # it leads a process group, which gets the signals

    def look(self, now: float) -> None:
        """Send the signal whose time has come; call it again until the process has ended."""
        # The later signal first: a look that comes late must not send SIGTERM when SIGKILL is due.
        if now >= self.kill:
            self._send(signal.SIGKILL)
        elif now >= self.term:
            self._send(signal.SIGTERM)
            self.term = self.kill  # once

    def has_ended(self) -> bool:
        return self.process.poll() is not None and not (self.group and group_runs(self.process.pid))

    def _send(self, number: int) -> None:
        if self.group:
            signal_group(self.process.pid, number)
        else:
            self.process.send_signal(number)


def end_child(process: subprocess.Popen[bytes], *, group: bool, grace: float = GRACE, wait: float = GRACE) -> None:
    """Send SIGTERM, wait a short grace, send SIGKILL and wait briefly; for the whole group if the child leads one.

    The grace is for the whole group. A leader that ends at once must not take it from a child that has something to
    take back, as srun its place in the queue.
    """
    now = time.monotonic()
    leaving = Leaving(process, term=now, kill=now + grace, group=group)
    # The whole group counts, not only its leader: srun ends at once and leaves a child that gives the job back.
    while not leaving.has_ended():
        leaving.look(now := time.monotonic())
        if now >= leaving.kill + wait:
            return
        time.sleep(_PAUSE)


def give_up(process: subprocess.Popen[bytes]) -> None:
    """Wait no more for a killed process, which may hang in the kernel (D state); Popen must not complain about that."""
    if process.poll() is None:
        process.returncode = -signal.SIGKILL


def rest_of_output(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Return what an ended command had still written, without waiting for a process that it left behind."""
    try:
        return process.communicate(timeout=GRACE)
    except subprocess.TimeoutExpired as late:
        return late.output or b"", late.stderr or b""


def write_some(descriptor: int, data: bytes | memoryview) -> bytes | memoryview:
    """Write what the pipe takes now; returns the rest, nothing once the reader is gone (its exit status says why)."""
    with suppress(BlockingIOError):
        try:
            return data[os.write(descriptor, data[:65536]) :]
        except BrokenPipeError:
            return b""
    return data


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(POLL)
    except subprocess.TimeoutExpired:
        return False
    return True


def close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
