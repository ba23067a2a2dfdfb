"""Locks on files: they wait, they go with their process, and nobody else can open them."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.system.files import canonical_json, explain_os_error

_LOCK_POLL = 0.1  # seconds


@contextmanager
def file_lock(
    path: Path, *, on_wait: Callable[[str], None] = lambda _: None, check: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Hold an exclusive lock on `path` (flock: it goes with the process, also over NFS; a dead holder never blocks).

    While waiting, `on_wait` gets its holder once, and `check` is called at each poll and may raise.
    """
    descriptor = _open_lock(path)
    try:
        told = False
        while not _try_lock(descriptor, path):
            if not told:
                on_wait(_holder(descriptor))
                told = True
            check()
            time.sleep(_LOCK_POLL)
        with suppress(OSError):  # the holder's name is a courtesy: a full disk must not stop the lock
            os.ftruncate(descriptor, 0)
            holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%FT%TZ", time.gmtime())}
            os.pwrite(descriptor, canonical_json(holder), 0)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def try_file_lock(path: Path) -> Iterator[bool]:
    """Like `file_lock` without waiting: yields whether the lock was had."""
    descriptor = _open_lock(path)
    try:
        yield _try_lock(descriptor, path)
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    """Nobody else can open it, for who can read a file can lock it: only its owner, and with a umask that lets the group write the group."""
    with explain_os_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o660)
    status = os.fstat(descriptor)
    mode = stat.S_IMODE(status.st_mode)
    kept = mode & (0o660 if mode & stat.S_IWGRP else 0o600)
    if (
        kept != mode and status.st_uid == os.geteuid() and path.suffix == ".lock"
    ):  # readable for all, of an earlier envmgr
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


def _holder(descriptor: int) -> str:
    try:
        record = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {record['pid']} on {record['host']} since {record['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
