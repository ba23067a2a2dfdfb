"""Files with a pulse: made on the file server by one of several hosts, touched every two seconds for as long as their
run lives.

They are seen on every host, also if a file system keeps locks to each client.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from envmgr.errors import InputError
from envmgr.system.files import atomic_write, clear_temporaries, explain_os_error, write_new
from envmgr.system.untrusted_files import ROW, open_untrusted, read_bytes

_BEAT = 2.0  # seconds between two touches
_DEAD = 60.0  # seconds without one after which a run counts as dead


@contextmanager
def beating(path: Path, text: str, *, anew: bool = False) -> Iterator[None]:
    """Keep a file there, touched every two seconds, while the body runs. With `anew`, FileExistsError if there is one.

    Another run may take it away from one that stood still too long: what lies there then is that run's, and is not
    touched.
    """
    if not anew:
        atomic_write(path, text)
    elif not _written_anew(path, text):
        raise FileExistsError(path)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(_BEAT):
            with suppress(OSError, InputError):
                if says(path, text):
                    # Without a time, the file server takes its own clock, which `_now` also asks.
                    os.utime(path)

    # A thread and not a process: the pulse must stop when this process is stopped or hangs as a whole.
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        # The thread ends first: it must not touch a file that another run makes under this name.
        thread.join()
        with suppress(OSError, InputError):
            if says(path, text):
                path.unlink()
        clear_temporaries(path.parent, path.name)  # a draft whose removal failed


def says(path: Path, text: str) -> bool:
    """Return whether it is there with this text. Raise OSError, InputError if it cannot be read."""
    try:
        return read_bytes(path, ROW) == text.encode()
    except FileNotFoundError:
        return False


def _written_anew(path: Path, text: str) -> bool:
    """Write a file completely, or not at all, by link(2), which the file server allows for only one of several hosts.

    Half a file, which a kill leaves, would name no process.
    """
    with explain_os_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            draft = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}.tmp")
            try:
                # Not synced: a mark need not outlive this host.
                write_new(draft, text.encode(), mode=0o644, sync=False)
                link_new(draft, path)
            except FileExistsError:
                return False
            except FileNotFoundError:
                if not path.parent.is_dir():
                    raise
                continue  # another run took the draft for a dead one's
            except OSError as error:
                # By these two, a file system says that it has no hard links. Source: link(2).
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP):
                    raise OSError(error.errno, error.strerror) from None  # of the row, whatever the draft is called
                return _written_by_name(path, text)
            else:
                return True
            finally:
                with suppress(OSError):
                    draft.unlink(missing_ok=True)


def link_new(draft: Path, path: Path) -> None:
    """Give the file `draft` the second name `path`. Raise FileExistsError if another run has it.

    A server that does not answer is asked again by the client, and may say then that it is there, though it was ours
    that came.
    """
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        with suppress(OSError):  # it went since
            if path.samefile(draft):
                return
        raise
    except OSError as error:
        if error.errno == errno.ESTALE and draft.exists():  # NFS: another one's, which went as the server was asked
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        raise


def _written_by_name(path: Path, text: str) -> bool:
    """Write it on a file system without second names."""
    try:
        write_new(path, text.encode(), mode=0o644)
    except FileExistsError:
        return False
    return True


def beat_lately(path: Path) -> bool:
    """Return whether a file of `beating` was touched less than a minute ago; after a longer silence its run counts as
    dead.
    """
    touched = _touched(path)
    return touched is not None and _now(path.parent) - touched <= _DEAD


def beats_within(path: Path, seconds: float, check: Callable[[], None] = lambda: None) -> bool:
    """Return whether it is touched while we look. `check` is called now and then, and may raise."""
    first = _touched(path)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        check()
        time.sleep(_BEAT / 4)
        if (now := _touched(path)) != first:
            return now is not None
    return False


def seen_at_all(path: Path) -> bool:
    """Return whether it can be looked at now."""
    return _touched(path) is not None


def _touched(path: Path) -> float | None:
    """Return when a row was touched last, by the file system's clock. It is opened, because NFS then asks the
    server.
    """
    try:
        with open_untrusted(path, ROW, tree=None) as descriptor:
            return os.fstat(descriptor).st_mtime
    except (OSError, InputError):
        return None


def _now(folder: Path) -> float:
    """Return the file system's clock, which may differ from this host's."""
    try:
        # The name is one that `clear_temporaries` removes, if a kill leaves the file.
        with tempfile.TemporaryFile(prefix=".now.", suffix=".0.0.tmp", dir=folder) as file:
            file.write(b"x")
            file.flush()
            return os.fstat(file.fileno()).st_mtime
    except OSError:  # a user that may only look, or a full disk
        return time.time()


def renew_listing(folder: Path) -> None:
    """Change a folder, so that NFS lists its current names, which may otherwise be up to a minute old.

    Also removes what a killed run left of such a change.
    """
    with suppress(OSError):  # a full disk, where others write no rows either; none there; a user that may only look
        descriptor, _ = tempfile.mkstemp(prefix=".renew.", suffix=".0.0.tmp", dir=folder)
        os.close(descriptor)
    for path in folder.glob(".renew.*.0.0.tmp"):
        with suppress(OSError):  # another run that renews it was faster
            path.unlink()
