"""Folders for temporary files: each has a lock for as long as its process lives, so that leftovers of a killed run can
be recognised.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.system.files import explain_os_error
from envmgr.system.processes import host_mark
from envmgr.system.safe_paths import remove_below
from envmgr.system.users import Account, can_enter

_OURS = re.compile(r"(envmgr-run-[a-z]+|\.copy)-(?P<host>[0-9a-f]{8})-\w{8}")
_OLD = 7 * 86400.0  # seconds after which a folder counts as left whose lock says nothing
_USUAL = ("/tmp", "/var/tmp")  # noqa: S108 - folders of our own are made there
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def scratch_folder(purpose: str, account: Account | None = None) -> Iterator[Path]:
    """Yield an empty folder that no other user can read, where temporary files go ($TMPDIR, else /tmp). It is removed
    at the end.

    Leftovers of killed runs of this user are removed first. `purpose` is a word of small letters. With an `account`, it
    lies where that user can go.

    Raises:
        EnvmgrError: `disk-full`, `not-writable`, `no-temporary-folder`.
    """
    with _locked_folder(temporary_files(account), f"envmgr-run-{purpose}-") as path:
        yield path


@contextmanager
def copy_folder(base: Path) -> Iterator[Path]:
    """Yield as `scratch_folder`, in `base`: for what is renamed to its place beside it."""
    with _locked_folder(base, ".copy-") as path:
        yield path


@contextmanager
def _locked_folder(base: Path, begin: str) -> Iterator[Path]:
    clear_dead_scratch(base)
    with ExitStack() as stack:
        with explain_os_error(base):
            path = _make(base, begin, stack)
        try:
            yield path
        finally:
            # The lock is held until the folder is gone, so that no other run clears it at the same time.
            with suppress(OSError):  # it has no lock then: the next run removes it
                remove_below(base, path)


@contextmanager
def folder_lock(path: Path) -> Iterator[bool]:
    """Yield whether no other process has the lock on a folder, which is then ours until the end, or until the folder is
    removed. A file system without locks gives it to all.

    Raise FileNotFoundError for a folder that is not there, or no longer; OSError.
    """
    descriptor = os.open(path, _FOLDER)
    try:
        had = True
        with suppress(OSError):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                had = False
        # Its holder may have removed it, and another one made it again, since it was opened.
        if had and not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        yield had
    finally:
        os.close(descriptor)


def temporary_files(account: Account | None = None) -> Path:
    """Return $TMPDIR if it can be written and has room, and `account` can go there, else /tmp. Python is not asked: it writes a file
    to see, and may leave it.

    Raise EnvmgrError `no-temporary-folder`.
    """
    places = [Path(name) for name in (os.environ.get("TMPDIR"), *_USUAL) if name]
    for place in places:
        if (
            place.is_dir()
            and os.access(place, os.W_OK | os.X_OK)
            and _has_room(place)
            and (account is None or can_enter(account, place.resolve()))
        ):
            return place.absolute()
    raise EnvmgrError(
        "no-temporary-folder",
        "there is no folder for temporary files that can be written and has room",
        context=f"looked at {', '.join(map(str, places))}",
        hint="name one in $TMPDIR",
    )


def _has_room(place: Path) -> bool:
    """Return whether its file system has room, or does not say how much; if not, leftovers of killed runs go first."""
    for _ in range(2):
        with suppress(OSError):
            of = os.statvfs(place)
            if of.f_bavail or not of.f_blocks:
                return True
        clear_dead_scratch(place)
    return False


def clear_dead_scratch(base: Path | None = None) -> None:
    """Remove the folders of this user in `base` (else where temporary files go) whose process is gone. A stranger's are
    not touched, a link is not followed.
    """
    with suppress(OSError, EnvmgrError):
        base = base or temporary_files()
        with os.scandir(base) as entries:
            names = [entry.name for entry in entries if _OURS.fullmatch(entry.name)]
        for name in names:
            with suppress(OSError):
                _clear(base, name)


def _make(base: Path, begin: str, stack: ExitStack) -> Path:
    """Return a new folder, with its lock until `stack` ends."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{begin}{host_mark()}-", dir=base))
        try:
            # Another run may take it for a dead one's before it has its lock, and remove it: make another one.
            with suppress(FileNotFoundError), ExitStack() as lock:
                if lock.enter_context(folder_lock(path)):
                    stack.push(lock.pop_all())
                    return path
        except BaseException:
            with suppress(OSError):
                path.rmdir()
            raise


def _clear(base: Path, name: str) -> None:
    folder = os.open(base / name, _FOLDER)
    try:
        status = os.fstat(folder)
        old = time.time() - status.st_mtime > _OLD
        ours = _OURS.fullmatch(name)
        # Another host's lies perhaps on a file system that keeps locks to each client: only its age counts.
        here = ours is not None and ours["host"] == host_mark()
        # mkdtemp makes folders that only their owner can write: any other one is not ours.
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022 or not (old or here):
            return
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        except OSError:
            if not old:
                return
        remove_below(base, base / name)
    finally:
        os.close(folder)
