"""The job table: one file under `<prefix>/var/jobs` for every build under way, so that the next run knows what a dead one left.

A row is touched every two seconds while its build lives. That is seen on every node, also where a file system keeps locks to
each node, and two nodes can both hold the lock of one install.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from envmgr.errors import EnvmgrError, InputError
from envmgr.store.prefix import Install
from envmgr.system.files import atomic_write, explain_os_error, pretty_json, write_new
from envmgr.system.processes import Process, all_processes, this_process
from envmgr.system.reading import ROW, opened, read_json
from envmgr.system.sandbox import PLACE

_BEAT = 2.0  # seconds between two touches of a row
_WATCH = 10.0  # seconds to look for one
_DEAD = 60.0  # seconds without one after which a build counts as dead


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
    """The row of this build in the table, for as long as it takes. Under the install's lock only."""
    row = BuildRow(
        **asdict(this_process()), install=install.relative, started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        work=str(work), slurm=os.environ.get("SLURM_JOB_ID", ""),
    )  # fmt: skip
    with beating(row_path(install), pretty_json(asdict(row))):
        yield


@contextmanager
def beating(path: Path, text: str, *, anew: bool = False) -> Iterator[None]:
    """A file that is there for as long as it takes, and touched every two seconds. With `anew`, FileExistsError where there is one."""
    if not anew:
        atomic_write(path, text)
    elif not _written_anew(path, text):
        raise FileExistsError(path)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(_BEAT):
            with suppress(OSError):
                os.utime(path)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        with suppress(OSError):
            path.unlink()


def _written_anew(path: Path, text: str) -> bool:
    """Whole, or not at all, by link(2): a half of it, which a kill leaves, would tell of nobody."""
    with explain_os_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            draft = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}.tmp")
            try:
                write_new(draft, text.encode(), mode=0o644)
                path.hardlink_to(draft)
            except FileExistsError:
                return False
            except FileNotFoundError:
                if not path.parent.is_dir():
                    raise
                continue  # another run took the draft for a dead one's
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP):
                    raise OSError(error.errno, error.strerror) from None  # of the row, whatever the draft is called
                return _written_by_name(path, text)
            else:
                return True
            finally:
                with suppress(OSError):
                    draft.unlink(missing_ok=True)


def _written_by_name(path: Path, text: str) -> bool:
    """On a file system without second names."""
    try:
        write_new(path, text.encode(), mode=0o644)
    except FileExistsError:
        return False
    return True


def left_row(install: Install) -> BuildRow | None:
    """The row that an earlier build of the install left behind; None without one, or with one that cannot be read."""
    return read_build_row(row_path(install))


def read_build_row(path: Path) -> BuildRow | None:
    """None without one, and for one that cannot be read."""
    try:
        return BuildRow(**read_json(path, ROW))
    except (OSError, InputError, ValueError, TypeError):
        return None


def beats(install: Install, check: Callable[[], None] = lambda: None) -> bool:
    """Whether a build of the install lives on some node: its row is touched while we look, for up to ten seconds.

    `check` is called now and then, and may raise.
    """
    if not lives_perhaps(install):
        return False
    first = _touched(row_path(install))
    end = time.monotonic() + _WATCH
    while time.monotonic() < end:
        check()
        time.sleep(_BEAT / 4)
        if (now := _touched(row_path(install))) != first:
            return now is not None
    return False


def lives_perhaps(install: Install) -> bool:
    """As `beats`, without waiting: a row was touched less than a minute ago."""
    return beat_lately(row_path(install))


def beat_lately(path: Path) -> bool:
    """Whether a file of `beating` was touched less than a minute ago; so long a silence is death."""
    touched = _touched(path)
    return touched is not None and _now(path.parent) - touched <= _DEAD


def _touched(path: Path) -> float | None:
    """When a row was touched last, by the file system's clock; opened, as NFS looks at the server then."""
    try:
        with opened(path, ROW, tree=None) as descriptor:
            return os.fstat(descriptor).st_mtime
    except (OSError, InputError):
        return None


def _now(folder: Path) -> float:
    """The file system's clock, which may not be this host's."""
    try:
        with tempfile.TemporaryFile(prefix=".now.", suffix=".0.0.tmp", dir=folder) as file:
            file.write(b"x")
            file.flush()
            return os.fstat(file.fileno()).st_mtime
    except OSError:  # a user that may only look, or a full disk
        return time.time()


def renew_listing(folder: Path) -> None:
    """NFS may tell the names in a folder as they were up to a minute ago, until this host changes one: so it does."""
    with suppress(OSError):  # a full disk, where others write no rows either; none there; a user that may only look
        descriptor, name = tempfile.mkstemp(prefix=".now.", suffix=".0.0.tmp", dir=folder)
        os.close(descriptor)
        Path(name).unlink()


def row_path(install: Install) -> Path:
    return install.prefix.jobs / f"{install.entry.name}-{install.label}.json"


def kept_row(install: Install, row: BuildRow) -> Path:
    """Where a dead build's row is kept that only its own host can clear; no row of the table."""
    host = row.host.replace("/", "_")
    return install.prefix.jobs / f"{install.entry.name}-{install.label}.{host}.{row.pid}.left"


def end_processes_in(folder: str) -> int:
    """Kill what a dead build left running on this host: every process of ours that works below its private folder.

    Returns how many there were. EnvmgrError `orphans-stay` when one does not end.
    """
    mine: set[int] = set()
    ended: set[int] = set()
    for _ in range(50):
        mine = {pid for pid in _own_processes() if _is_below(pid, folder)} - {os.getpid()}
        if not mine:
            break
        ended |= mine
        for pid in mine:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    else:
        raise EnvmgrError("orphans-stay", f"processes of a dead build do not end: {sorted(mine)}", context=folder)
    return len(ended)


def _own_processes() -> Iterator[int]:
    for pid in all_processes():
        with suppress(OSError):
            if Path(f"/proc/{pid}").stat().st_uid == os.geteuid():
                yield pid


def _is_below(pid: int, folder: str) -> bool:
    """By its working folder, as others or as it sees it; or by its environment: builds are given a path below theirs in a variable
    `ENVMGR_…`.
    """
    with suppress(OSError):
        place = Path(f"/proc/{pid}/root{PLACE}").stat()
        if any(os.path.samestat(place, work.stat()) for work in Path(folder).iterdir()):
            return True
    with suppress(OSError):
        if (Path(f"/proc/{pid}/cwd").readlink() / "x").is_relative_to(folder):
            return True
    with suppress(OSError):
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        return re.search(rb"(^|\0)ENVMGR_\w+=" + re.escape(os.fsencode(folder)) + b"/", environ) is not None
    return False
