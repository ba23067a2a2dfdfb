"""Children of this process: how they end, with all of their group, and how their pipes are read to the end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from envmgr.system.processes import group_runs

POLL = 0.1  # seconds between looks at the cancel flag
GRACE = 2.0  # seconds between SIGTERM and SIGKILL, and for children that hold the output after their parent
_PAUSE = 0.025  # seconds between looks at a child that has to end


def in_memory(text: str = "") -> IO[bytes]:
    """A file that lies nowhere, to be read from its beginning: the whole input of a child, however late it reads.

    Not a pipe, of which `Popen.communicate` writes no more once it has timed out. Tried on Python 3.11.
    """
    file = os.fdopen(os.memfd_create("envmgr"), "w+b")
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
    """SIGTERM, a short grace, SIGKILL, and a short wait: for the whole group when the child leads one.

    The grace is the whole group's: a leader that ends at once must not take it from a child that has something to take back, as
    srun its place in the queue.
    """
    now = time.monotonic()
    leaving = Leaving(process, term=now, kill=now + grace, group=group)
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
    """What an ended command had still written; a process that it left behind may hold the pipes, and is not waited for."""
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
