"""Processes by what the kernel says of them. Source: proc(5)."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"
# Fields of /proc/PID/stat, counted from the one after the name, which is in brackets and may hold anything.
_STATE, _GROUP, _START = 0, 2, 19


@dataclass(frozen=True, slots=True)
class Process:
    """A process, for good: `ticks` is its start in clock ticks since `boot`. A number is used again, the pair is not."""

    host: str
    boot: str
    pid: int
    ticks: int


def this_process() -> Process:
    return Process(socket.gethostname(), _boot(), os.getpid(), _ticks(os.getpid()) or 0)


def is_here(process: Process) -> bool:
    """Whether it is, or was, one of this host since it booted."""
    return process.host == socket.gethostname() and process.boot == _boot()


def host_mark() -> str:
    """Eight letters and digits for this host, in names of what only this host can tell a dead run's."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def runs_here(process: Process) -> bool:
    """Whether it still runs, on this host; False for one of another host, whose processes are not seen here."""
    return is_here(process) and _ticks(process.pid) == process.ticks


def group_runs(group: int) -> bool:
    """Whether a process of the group has not ended: zombies, which may never be collected, do not count."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's, but there
        pass
    stats = (_stat(pid) for pid in all_processes())
    return any(stat and int(stat[_GROUP]) == group and stat[_STATE] not in "ZX" for stat in stats)


def all_processes() -> Iterator[int]:
    """Their numbers; some may have ended since."""
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None for one that is not there."""
    stat = _stat(pid)
    return int(stat[_START]) if stat else None


def _stat(pid: int) -> list[str]:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _boot() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
