"""Files: atomic writes, the symlink flip, removal of read-only trees, canonical JSON, the files that ship with envmgr."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from envmgr.errors import EnvmgrError, InputError
from envmgr.system.safe_paths import open_doors

_PIECE = 256 << 10  # bytes


def canonical_json(value: Any) -> bytes:
    """Return the only byte form of a JSON value: sorted keys, no spaces, UTF-8. Digests are taken over this."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="surrogatepass")  # file names that are not UTF-8 hold surrogates


def pretty_json(value: Any) -> str:
    """Return the form for files that people compare: sorted keys, one space of indent, a final newline."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def sha256_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: str | Path) -> str:
    """Read by pieces that are not cleared before, as `hashlib.file_digest` clears its buffer: most files are small."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a Path for each of a million files costs as much as its read
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


_WHOLE = 256 << 10  # bytes that are read at once
_LARGE = 1 << 20  # bytes of the pieces of a larger file
# O_NONBLOCK: without it, opening a pipe that nobody writes would wait for ever.
_REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def sha256_regular(path: str, size: int) -> str:
    """Return the sha256 of a file that lstat(2) just reported as a regular one of `size` bytes: a link or a pipe in its
    place is not followed or waited for.

    Most files of an install are small: one read has them whole, and a short read says that this was the end.
    """
    descriptor = os.open(path, _REGULAR)
    try:
        # One byte more than the size: a full read would not show whether the file grew.
        piece = os.read(descriptor, min(size, _WHOLE) + 1)
        if len(piece) == size <= _WHOLE:
            return hashlib.sha256(piece).hexdigest()
        digest = hashlib.sha256(piece)
        # One buffer for all pieces: a new one for each would be cleared first, which costs a third of the time.
        buffer = bytearray(_LARGE)
        view = memoryview(buffer)
        while count := os.readv(descriptor, (buffer,)):
            digest.update(view[:count])
        return digest.hexdigest()
    finally:
        os.close(descriptor)


def read_regular(path: str | Path) -> bytes:
    """Return the content of a regular file. Raises OSError for anything else; links are not followed, and nothing
    blocks.
    """
    descriptor = os.open(os.fspath(path), _REGULAR)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        pieces = []
        while piece := os.read(descriptor, _LARGE):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def atomic_write(path: Path, text: str | bytes, *, mode: int = 0o644) -> None:
    """Write beside `path`, sync, rename over it: a reader sees the old or the new content, never a part.

    Raises:
        EnvmgrError: `disk-full` or `not-writable`; the old content is then untouched.
    """
    data = text.encode() if isinstance(text, str) else text
    with explain_os_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_temporaries(path.parent, path.name)
        # A run that clears temporaries may take the new file for a dead one's in the moment before its lock.
        for _ in range(2):
            with suppress(FileNotFoundError):  # another run took it for a dead one's, before it had its lock
                _write_beside(path, data, mode)
                return
        _write_beside(path, data, mode)


def _write_beside(path: Path, data: bytes, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}.tmp")
    try:
        with temporary.open("xb") as file:  # not through a link that another user made
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(data)
            file.flush()
            # Not by open's mode: the umask of the user who runs this would decide.
            os.fchmod(file.fileno(), mode)
            # Without it a crash of the host can leave an empty file under the final name.
            os.fsync(file.fileno())
            temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # the first error is reported; the next write removes the file
            temporary.unlink()
        raise


_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+\.\d+\.tmp")


def clear_temporaries(folder: Path, name: str | None = None) -> None:
    """Remove what killed writes left beside the file `name`, or in the whole folder: a living write holds a lock on its
    own.

    Another user's files, and irregular files, are not touched. What stays is tried again by the next write.
    """
    try:
        with os.scandir(folder) as entries:
            found = [
                each.path
                for each in entries
                if (match := _TEMPORARY.fullmatch(each.name)) and name in (None, match["name"])
            ]
    except OSError:
        return
    for path in found:
        with suppress(OSError):
            _clear_temporary(path)


def _clear_temporary(path: str) -> None:
    descriptor = os.open(path, _REGULAR)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            # A living write holds this lock, so only files of dead ones are removed.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)  # noqa: PTH108 - a scandir path
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes, *, mode: int, sync: bool = True) -> None:
    """Write a file that must not exist yet, and sync it, unless it need not outlive this host. Raise FileExistsError;
    OSError, and then it is not there.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        try:
            rest = data
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            # The umask takes bits from the mode that open(2) gets.
            os.fchmod(descriptor, mode)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)  # which may say what a write did not, over a network
    except BaseException:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise


def exchange(one: Path, other: Path) -> None:
    """Give each the other's name, at once if the file system can (renameat2); otherwise by renames, between which
    `other` is gone for a moment.

    If `other` does not exist, `one` is renamed to it. OSError, if nothing changed.
    """
    import ctypes

    if not os.path.lexists(other):
        one.rename(other)
        return
    # Python has no name for it, and musl and old glibc do not have it either.
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None and not call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        return
    # A kernel or a file system that cannot exchange names gives one of these. Source: renameat2(2).
    if call is not None and ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))
    aside = one.with_name(f"{one.name}.aside")
    other.rename(aside)
    try:
        one.rename(other)
    except OSError:
        # Readers must find something under this name, so the old content returns.
        aside.rename(other)
        raise
    aside.rename(one)


_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE of renameat2(2)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Remove a tree, read-only folders included, or a file; it may be missing, and another process may remove it at the
    same time.

    Raise OSError for what stays.
    """
    # `is_dir` follows links, and rmtree refuses them.
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    while path.exists():
        open_doors(path)  # folders lose their write bit in the store; without it nothing in them can be removed
        with suppress(FileNotFoundError):  # removed from under us: look again
            shutil.rmtree(path)


def group_id(name: str | None) -> int | None:
    """Return the number of a group; None for none. Raises EnvmgrError `unknown-group` if it does not exist."""
    if name is None:
        return None
    import grp

    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise InputError(
            "unknown-group", f"the group `{name}` does not exist here", context="policies.group in site.yaml"
        ) from None


def sync_file_system(folder: Path) -> None:
    """Make all that was written on the file system of `folder` durable; other file systems are not waited for."""
    # Python has no syncfs(2), and os.sync waits for all file systems.
    import ctypes

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)


def free_bytes(path: Path) -> int:
    """Return the bytes that an ordinary user may still write on the file system of `path` or its nearest existing
    parent.
    """
    # The prefix may not exist yet: its nearest parent is on the file system that it will be on.
    while not path.exists():
        path = path.parent
    # This `free` leaves out the blocks that are reserved for root (f_bavail).
    return shutil.disk_usage(path).free


_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.EBUSY)  # by another run, or a mount


@contextmanager
def explain_os_error(path: Path, *, but: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Turn the operating system's refusals into errors of the house form, except `but`, which the caller handles."""
    try:
        yield
    except but:
        raise
    except OSError as error:
        where = str(error.filename or path)
        if told := disk_error(error, where):
            raise told from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise _not_writable(error, where) from error
        if error.errno == errno.ENOENT:
            raise EnvmgrError(
                "mount-lost",
                f"{where} is gone",
                context=str(error),
                hint="is the file system still mounted? Mount it again; the next run cleans up",
            ) from error
        if error.errno in (*_TAKEN, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO, errno.ENODEV):
            raise _unusable(error, where) from error
        raise


# What file systems over a network answer when their server, or the way to it, is not as it should be. Source: errno(3); Lustre
# takes ESHUTDOWN for a client that was evicted, clients of NFS in FUSE take EFAULT for a broken answer.
_LOST = {
    getattr(errno, name)
    for name in (
        "EBADMSG ECOMM ECONNABORTED ECONNREFUSED ECONNRESET EFAULT EHOSTDOWN EHOSTUNREACH EIO ENETDOWN ENETRESET "
        "ENETUNREACH ENOLINK ENOTCONN EPROTO EREMOTEIO ESHUTDOWN ESTALE ETIMEDOUT EUCLEAN"
    ).split()
}


def disk_error(error: OSError, where: str) -> EnvmgrError | None:
    """Return the error for a file system that is full, read-only or lost, or has a file in a folder's place, for which
    no code is to blame; None for all else.
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EnvmgrError(
            "disk-full",
            f"no space left for {where}",
            context=str(error),
            hint="free some space (`envmgr gc` removes old generations and unused installs), then run the same "
            "command again",
        )
    if error.errno == errno.EROFS:
        return _not_writable(error, where)
    if error.errno in _LOST:
        return EnvmgrError("mount-lost", f"the file system under {where} does not answer properly", context=str(error))
    if error.errno == errno.ENOTDIR:
        return _unusable(error, where)
    return None


def _unusable(error: OSError, where: str) -> EnvmgrError:
    return EnvmgrError("path-unusable", f"{where} cannot be used", context=str(error))


def _not_writable(error: OSError, where: str) -> EnvmgrError:
    return EnvmgrError(
        "not-writable",
        f"cannot write {where}",
        context=str(error),
        hint=f"mount its file system read-write on {socket.gethostname()}"
        if error.errno == errno.EROFS
        else "run as the site's build user, or give this user the folder",
    )


@cache
def shipped(name: str) -> Path:
    """Return the folder `modulefiles`, `recipes`, `easyconfigs`, `nodesetup` or `docs` as installed."""
    package = Path(__file__).resolve().parents[1]
    in_wheel = package / "data" / name
    with suppress(PermissionError):  # reading it will say so
        if in_wheel.is_dir():
            return in_wheel
    return package.parent / name
