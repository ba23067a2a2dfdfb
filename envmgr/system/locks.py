"""Locks on files: they wait, end with their process or its pulse, on any host, and no other user can open them.

Some file systems keep locks to each client. Sources: nfs(5), mount.lustre(8), gfs2(5), mount.cifs(8).
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Severity
from envmgr.system.files import canonical_json, explain_os_error
from envmgr.system.processes import Process, is_here, runs_here, this_process
from envmgr.system.pulse import beat_lately, beating, beats_within, says, seen_at_all
from envmgr.system.untrusted_files import ROW, read_json
from envmgr.wording import utc_now

_LOCK_POLL = 0.1  # seconds
_MARK_POLL = 0.5  # seconds; each look writes on the server
_WATCH = 10.0  # seconds to look for a touch of a mark that had none for long


@dataclass(frozen=True, slots=True)
class Held:
    """A lock that is held. `mark` is None where none could be made: on a full disk, and beside what is no lock file."""

    path: Path
    mark: str | None

    def still(self) -> bool:
        """Return whether no other run took it while this one stood still."""
        return self.mark is None or _is_marked(self.path, self.mark)

    def require(self) -> None:
        """Require that the lock is still held, before what was made under it counts. Raises EnvmgrError `lock-lost`."""
        if not self.still():
            raise _lost(self.path)


@contextmanager
def file_lock(
    path: Path, *, on_wait: Callable[[str], None] = lambda _: None, check: Callable[[], None] = lambda: None
) -> Iterator[Held]:
    """Hold an exclusive lock on `path`. While waiting, `on_wait` gets its holder once, and `check` is called at each
    poll and may raise.

    It is flock, which goes with the process: a dead holder on this host never blocks. Beside it lies a mark, which the
    file server makes for only one host and which has a pulse: if a file system keeps locks to each client, hosts wait
    for each other by that.
    """
    descriptor = _open_lock(path)
    try:
        holder: Mapping[str, Any] = {}
        # Polled: a wait inside flock(2) could not be cancelled, and would never call `check`.
        while not _try_lock(descriptor, path):
            if not holder:
                holder = _holder(descriptor)
                on_wait(_named(holder))
            check()
            time.sleep(_LOCK_POLL)
        # Who waits reads the holder from the file itself, which flock does not protect from reading.
        _write_holder(descriptor)
        with ExitStack() as stack:
            told = bool(holder)
            while (held := _mark(stack, path)) is None:
                other = _read_mark(mark_of(path))
                if not told:
                    told = True
                    on_wait(_named(other))
                if _lives(mark_of(path), other, check, ended=_who(other) == _who(holder)):
                    check()
                    time.sleep(_MARK_POLL)
                else:
                    _take_away(mark_of(path), other)
            yield held
    finally:
        os.close(descriptor)


@contextmanager
def try_file_lock(path: Path) -> Iterator[bool]:
    """Take the lock like `file_lock`, without waiting for a live holder; yield whether it was taken."""
    descriptor = _open_lock(path)
    try:
        with ExitStack() as stack:
            had = _try_lock(descriptor, path)
            while had and _mark(stack, path) is None:
                other = _read_mark(mark_of(path))
                if had := not _lives(mark_of(path), other):
                    _take_away(mark_of(path), other)
            yield had
    finally:
        os.close(descriptor)


def require_not_anothers(path: Path) -> None:
    """Raise EnvmgrError `lock-lost` if another run has its mark on `path`, because this one stood still. Call it before
    a change under the lock.
    """
    with suppress(KeyError, TypeError, ValueError):
        row = _read_mark(mark_of(path))
        if Process(str(row["host"]), str(row["boot"]), int(row["pid"]), int(row["ticks"])) != this_process():
            raise _lost(path)


def _lost(path: Path) -> EnvmgrError:
    return EnvmgrError(
        "lock-lost",
        f"this run stood still for a minute or longer, and another one took {path}",
        context=_named(_read_mark(mark_of(path))),
        hint="nothing that is published was changed: run the same command again",
    )


def mark_of(path: Path) -> Path:
    """Return the place of the holder's mark for a lock file on `path`."""
    return path.with_name(f"{path.name}.holder")


def _mark(stack: ExitStack, path: Path) -> Held | None:
    """Return the lock with its mark, which exists as long as `stack`; None if another run has its own mark there."""
    if path.suffix != ".lock":
        return Held(path, None)
    # The number makes two marks of one process differ: `still` compares the whole text.
    text = canonical_json({**asdict(this_process()), "since": _now(), "number": time.monotonic_ns()}).decode()
    try:
        stack.enter_context(beating(mark_of(path), text, anew=True))
    except FileExistsError:
        return None
    except EnvmgrError as error:
        if error.reference != "disk-full":
            raise
        return Held(path, None)  # `gc` frees space, and must have its locks for that
    return Held(path, text)


def _is_marked(path: Path, mark: str) -> bool:
    try:
        return says(mark_of(path), mark)
    except (OSError, InputError):
        return False


def _read_mark(mark: Path) -> dict[str, Any]:
    """Empty for one that is gone, or cannot be read."""
    try:
        found = read_json(mark, ROW)
    except (OSError, InputError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _lives(
    mark: Path, row: Mapping[str, Any], check: Callable[[], None] = lambda: None, *, ended: bool = False
) -> bool:
    """Return whether the run that made it lives. On another host it is dead after a minute without a touch, and none
    while we look: a server that stood still lets nobody touch anything.

    `ended`: its flock was seen here, and went.
    """
    with suppress(KeyError, TypeError, ValueError):
        process = Process(str(row["host"]), str(row["boot"]), int(row["pid"]), int(row["ticks"]))
        # The kernel of this host knows at once what the pulse shows only after a minute.
        if is_here(process):
            return runs_here(process)
    if not seen_at_all(mark):  # it went, and is another one's by the time that we look again
        return True
    return (not ended and beat_lately(mark)) or beats_within(mark, _WATCH, check)


def _take_away(mark: Path, row: Mapping[str, Any]) -> None:
    """Take away the mark of a dead run, by a rename, which only one of several hosts can do; if another host was
    quicker and made its own, that is put back.
    """
    aside = mark.with_name(f".{mark.name}.{os.getpid()}.{time.monotonic_ns()}.tmp")
    with explain_os_error(mark):
        if _read_mark(mark) != row:
            return
        try:
            mark.rename(aside)
        except FileNotFoundError:
            return
        # Between the look and the rename, another host may have taken the dead mark away and made its own.
        if _read_mark(aside) != row:
            with suppress(FileExistsError):
                # A link and not a rename: it fails if a third host has made its own mark since.
                mark.hardlink_to(aside)
        aside.unlink(missing_ok=True)


def _open_lock(path: Path) -> int:
    """Open a lock file so that other users cannot: a user who can read a file can lock it.

    Only its owner can, and the group if the umask lets the group write.
    """
    with explain_os_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # O_NOFOLLOW: another user's link must not decide which file is made or locked.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o660)
    status = os.fstat(descriptor)
    mode = stat.S_IMODE(status.st_mode)
    kept = mode & (0o660 if mode & stat.S_IWGRP else 0o600)
    if kept != mode and status.st_uid == os.geteuid() and path.suffix == ".lock":  # the umask 022 lets the group read
        with suppress(OSError):
            os.fchmod(descriptor, kept)
    return descriptor


def _try_lock(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise EnvmgrError(
            "no-locks",
            f"the file system under {path.parent} gives no locks",
            context=str(error),
            hint="mount it with locks (NFS: lockd must run on both sides): two builds would write over each other",
        ) from error
    return True


def _write_holder(descriptor: int) -> None:
    with suppress(OSError):  # the holder's name is a courtesy: a full disk must not stop the lock
        os.ftruncate(descriptor, 0)
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": _now()}
        os.pwrite(descriptor, canonical_json(holder), 0)


def _holder(descriptor: int) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(os.pread(descriptor, 4096, 0))
        if isinstance(found, dict):
            return {"pid": None, **found}
    return {"pid": None}


def _who(row: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the identity of a holder; one that is incomplete equals no other."""
    return (row["pid"], row["host"]) if row.get("pid") and row.get("host") else (object(),)


def _named(row: Mapping[str, Any]) -> str:
    return (
        f"process {row['pid']} on {row['host']} since {row['since']}"
        if {"host", "since"} <= {*row}
        else "another process"
    )


def _now() -> str:
    return utc_now()


_SAYS = {
    "nfs": ("nolock", "local_lock=all", "local_lock=flock"),
    "nfs4": ("nolock", "local_lock=all", "local_lock=flock"),
    "lustre": ("localflock",),
    "gfs2": ("localflocks",),
    "ocfs2": ("localflocks",),
    "cifs": ("nobrl",),
    "smb3": ("nobrl",),
}
_MAY = ("9p", "beegfs", "virtiofs")  # by settings that the mount does not show
_SHARE = ("fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.juicefs", "fuse.mfs", "fuse.moosefs")

LOCKS_HINT = (
    "mount it with locks that all clients share (NFS: without nolock and local_lock; Lustre: flock), or say "
    "`mount: {locks: local}` in "
    "site.yaml: envmgr's own marks keep hosts apart, and a host takes over from a dead one after a minute"
)


def local_locks(kind: str, options: Collection[str]) -> tuple[Severity, str] | None:
    """Return how sure it is that flock on such a mount is seen by no other client, and what says so; None if the server
    has the lock.
    """
    if said := [option for option in _SAYS.get(kind, ()) if option in options]:
        return "warning", f"locks-not-shared: {kind} mounted with {said[0]} keeps locks to each client"
    if kind in _MAY or (kind.startswith("fuse") and kind not in _SHARE):
        return "note", f"locks-not-shared: {kind} may keep locks to each client"
    return None


def mount_of(path: Path) -> tuple[str, str, frozenset[str]]:
    """Return type, source and options of the mount that a path lies on. Source: proc(5), mountinfo; the longest mount
    point above it wins.
    """
    best = ("", "unknown", "", frozenset[str]())
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition(" - ")
        point, options = left.split()[4:6]
        kind, source, *more = right.split()
        # `>=`: of two mounts on one point, the later line lies on top and counts.
        if (str(path) + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best[0]):
            best = (point, kind, source, frozenset({*options.split(","), *",".join(more).split(",")}))
    return best[1:]
