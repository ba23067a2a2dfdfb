"""Files that a lock names, brought into a cache side by side."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

from envmgr.catalog.site_file import Policies
from envmgr.downloads import Download, Fetched, FetchedFile, Given, digest_of, unreadable
from envmgr.downloads.transfer import Bounds, NotHad, Reason, TooLarge, take_file
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter, Stage
from envmgr.system.child import Failure
from envmgr.system.files import explain_os_error
from envmgr.system.run import Runner
from envmgr.wording import size_text

_AT_ONCE = 6  # downloads side by side
_HASHING = 4  # threads that hash files
_LOOK_EVERY = 0.1  # seconds between two looks whether somebody cancelled
_GRACE = 5.0  # seconds in which transfers that were cancelled remove their part files


@dataclass(frozen=True, slots=True)
class Fetching:
    """The way in which files are brought; `label` says whose they are, in progress.

    A dry run hashes what is there, and changes nothing. Without `copy`, files in folders are used where they are. There
    must be room for all files also `unpacked`, times as large.
    """

    policies: Policies
    runner: Runner
    reporter: Reporter
    label: str
    dry_run: bool = False
    copy: bool = True
    unpacked: int = 0

    def say(self, text: str) -> None:
        self.reporter.say(f"{self.label}: {text}")


def bring(downloads: Iterable[Download], cache: Path, failure: Failure, how: Fetching, given: Given) -> Fetched:
    """Bring every file that is not there into the cache; given ones are looked at first.

    Raises:
        EnvmgrError: by `failure`, when all that can be had is there; or of the disk.
        InputError: `file-unreadable` for a given file.
    """
    # Each file once: a second download of it would only wait for the lock of the first.
    found = {(d.sha256, d.name): d for d in downloads}
    own = {sha256: given[sha256] for sha256, _ in found if sha256 in given}
    wanted = [replace(d, places=(own[d.sha256].as_uri(), *d.places)) if d.sha256 in own else d for d in found.values()]
    with explain_os_error(cache):
        present, damaged = _look(wanted, cache, how)
        if not how.dry_run:
            for place, _, text in damaged.values():
                _remove_damaged(Path(place), text)
        missing = [d for d in wanted if d not in present]
        for path in (own[d.sha256] for d in missing if d.sha256 in own):
            if not os.access(path, os.R_OK):
                raise unreadable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path)))
        paths = {file: file.path(cache) for file in present}
        if missing and not how.dry_run:
            cache.mkdir(parents=True, exist_ok=True)
            try:
                _require_room(wanted, missing, cache, how)
                taken, lost = _take_all(missing, cache, how)
            except TooLarge as error:
                raise failure({"kind": "TooLarge", "message": str(error)}, {"cache": str(cache)}) from None
            paths |= taken
            if lost:
                failed = [
                    {"name": d.name, "sha256": d.sha256, "reasons": [*([damaged[d]] if d in damaged else []), *reasons]}
                    for d, reasons in lost.items()
                ]
                names = ", ".join(file.name for file in lost)
                raise failure({"kind": "DownloadError", "message": names, "failed": failed}, {"cache": str(cache)})

    def outcome(file: Download) -> FetchedFile:
        if file in present:
            return FetchedFile(file.name, file.sha256, "present", present[file])
        if how.dry_run:
            return FetchedFile(file.name, file.sha256, "missing", file.size, file.places)
        return FetchedFile(file.name, file.sha256, "fetched", paths[file].stat().st_size)

    return Fetched(tuple(outcome(d) for d in wanted), {file.sha256: path for file, path in paths.items()})


def _look(wanted: Sequence[Download], cache: Path, how: Fetching) -> tuple[dict[Download, int], dict[Download, Reason]]:
    """Return the files that the cache has, with their size in bytes, and those of which it has a damaged copy.

    Raise InputError `file-unreadable` for a file that was put there by hand.
    """
    sizes = {d: d.path(cache).stat().st_size for d in wanted if d.path(cache).is_file()}
    found, damaged = dict[Download, int](), dict[Download, Reason]()
    if not sizes:
        return found, damaged
    seen = 0
    with how.reporter.stage(f"{how.label} check", total=sum(sizes.values()), unit="bytes") as stage:
        # The largest first: one that begins last would keep all waiting. Hashing leaves the interpreter lock.
        ordered = sorted(sizes, key=lambda file: -sizes[file])
        with ThreadPoolExecutor(max(1, min(_HASHING, len(ordered)))) as pool:
            for file, sha256 in zip(
                ordered, pool.map(lambda f: _hash(f.path(cache), how.runner), ordered), strict=True
            ):
                if sha256 == file.sha256:
                    found[file] = sizes[file]
                else:
                    text = f"sha256 is {sha256}, the lock says {file.sha256}"
                    damaged[file] = (str(file.path(cache)), "damaged", text)
                seen += sizes[file]
                stage.update(seen, detail=file.name)
    return found, damaged


def _hash(path: Path, runner: Runner) -> str:
    runner.raise_if_cancelled()
    return digest_of(path)


def _remove_damaged(path: Path, text: str) -> None:
    try:
        with explain_os_error(path):
            path.unlink(missing_ok=True)
    except EnvmgrError as error:
        error.context = (*error.context, f"{path}: {text}")  # why it must be written
        raise


def _require_room(wanted: Sequence[Download], missing: Sequence[Download], cache: Path, how: Fetching) -> None:
    """Require room for the files that are missing, and for all of them unpacked, as far as their size is known.

    Before the first byte: a disk that is full at the end would waste the whole transfer. Raise TooLarge.
    """
    comes = [d for d in missing if how.copy or not (d.places and d.places[0].startswith("file://"))]
    download = sum(d.size or 0 for d in comes)
    needed = download + how.unpacked * sum(d.size or 0 for d in wanted)
    free, keep_free = shutil.disk_usage(cache).free, how.policies.min_free
    if needed + keep_free > free:
        raise TooLarge(
            f"{size_text(needed)} are needed ({size_text(download)} to download), {size_text(free)} are free, "
            f"of which policies.min_free keeps {size_text(keep_free)}"
        )


def _take_all(
    missing: Sequence[Download], cache: Path, how: Fetching
) -> tuple[dict[Download, Path], dict[Download, Sequence[Reason]]]:
    """Take the files by threads; return where each is, and why no place gave the others."""
    taken, lost, faults = dict[Download, Path](), dict[Download, Sequence[Reason]](), list[BaseException]()
    policies = how.policies
    todo = SimpleQueue[Download]()
    bounds = Bounds(policies.download_retries, policies.stall_timeout, policies.min_free)
    for file in missing:
        todo.put(file)
    with _bar(missing, how) as tick:

        def take() -> None:
            while not bounds.over.is_set():
                try:
                    file = todo.get_nowait()
                except Empty:
                    return
                try:
                    tell = partial(tick, file)
                    taken[file] = take_file(file, cache, bounds, copy=how.copy, tick=tell, say=how.say)
                except NotHad as error:
                    lost[file] = error.reasons
                except BaseException as error:  # noqa: BLE001 - it is raised below
                    faults.append(error)
                    bounds.end()

        # Daemons: a server may keep one waiting, and no exit waits for it.
        threads = [threading.Thread(target=take, daemon=True) for _ in range(min(_AT_ONCE, len(missing)))]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_LOOK_EVERY)
                    how.runner.raise_if_cancelled()
        finally:
            bounds.end()
            ends = time.monotonic() + _GRACE
            for thread in threads:
                thread.join(max(0.0, ends - time.monotonic()))
        if faults:
            raise faults[0]
    return taken, lost


@contextmanager
def _bar(files: Sequence[Download], how: Fetching) -> Iterator[Callable[[Download, int], None]]:
    """Yield a function that takes the bytes of a file that came so far, for one bar of all files."""
    came: dict[Download, int] = {}
    lock = threading.Lock()
    stages: list[Stage] = []
    total = sum(file.size or 0 for file in files)
    with ExitStack() as stack:

        def tick(file: Download, done: int) -> None:
            with lock:
                if not stages:  # files in folders that are used where they are need no bar
                    stages.append(stack.enter_context(how.reporter.stage(f"{how.label} download", unit="bytes")))
                came[file] = done
                stages[0].update(sum(came.values()), total=total or None, detail=file.name)

        yield tick
