"""Files that a lock names, brought into a cache side by side."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

from envmgr.catalog.site_file import Policies
from envmgr.downloads import Download, Fetched, FetchedFile, Given, has, unreadable
from envmgr.downloads.transfer import Bounds, NotHad, TooLarge, take_file
from envmgr.report import Reporter, Stage
from envmgr.system.child import Failure
from envmgr.system.files import explain_os_error
from envmgr.system.run import Runner
from envmgr.wording import size_text

_AT_ONCE = 6  # downloads side by side
_HASHING = 4  # threads that hash files
_LOOK_EVERY = 0.1  # seconds between two looks whether somebody cancelled
_GRACE = 2.0  # seconds in which transfers that were cancelled remove their part files


def bring(
    downloads: Iterable[Download],
    cache: Path,
    policies: Policies,
    runner: Runner,
    reporter: Reporter,
    *,
    label: str,
    failure: Failure,
    given: Given,
    dry_run: bool = False,
    copy: bool = True,
    unpacked: int = 0,
) -> Fetched:
    """Bring every file that is not there into the cache; given ones are looked at first.

    `label` says whose they are, in progress. A dry run hashes what is there, and changes nothing. Without `copy`, files
    in folders are used where they are. There must be room for all files also `unpacked`, times as large.

    Raises:
        EnvmgrError: by `failure`, when all that can be had is there; or of the disk.
        InputError: `file-unreadable` for a given file.
    """
    # Each file once: a second download of it would only wait for the lock of the first.
    found = {(d.sha256, d.name): d for d in downloads}
    own = {sha256: given[sha256] for sha256, _ in found if sha256 in given}
    wanted = [replace(d, places=(own[d.sha256].as_uri(), *d.places)) if d.sha256 in own else d for d in found.values()]
    with explain_os_error(cache):
        present = _present(wanted, cache, runner, reporter, label=label, mend=not dry_run)
        missing = [d for d in wanted if d not in present]
        for path in (own[d.sha256] for d in missing if d.sha256 in own):
            if not os.access(path, os.R_OK):
                raise unreadable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path)))
        paths = {file: file.path(cache) for file in present}
        if missing and not dry_run:
            cache.mkdir(parents=True, exist_ok=True)
            try:
                _require_room(wanted, missing, cache, policies.min_free, unpacked=unpacked, copy=copy)
                paths |= _take_all(missing, cache, policies, runner, reporter, label=label, copy=copy)
            except TooLarge as error:
                raise failure({"kind": "TooLarge", "message": str(error)}, {"cache": str(cache)}) from None
            except _LostError as error:
                event = {"kind": "DownloadError", "message": str(error), "failed": error.failed}
                raise failure(event, {"cache": str(cache)}) from None

    def outcome(file: Download) -> FetchedFile:
        if file in present:
            return FetchedFile(file.name, file.sha256, "present", present[file])
        if dry_run:
            return FetchedFile(file.name, file.sha256, "missing", file.size, file.places)
        return FetchedFile(file.name, file.sha256, "fetched", paths[file].stat().st_size)

    return Fetched(tuple(outcome(d) for d in wanted), {file.sha256: path for file, path in paths.items()})


def _present(
    wanted: Sequence[Download], cache: Path, runner: Runner, reporter: Reporter, *, label: str, mend: bool
) -> dict[Download, int]:
    """Return the files that the cache has, checked, with their size in bytes."""
    sizes = {d: d.path(cache).stat().st_size for d in wanted if d.path(cache).is_file()}
    found: dict[Download, int] = {}
    if not sizes:
        return found
    seen = 0
    with reporter.stage(f"{label} check", total=sum(sizes.values()), unit="bytes") as stage:
        # The largest first: one that begins last would keep all waiting. Hashing leaves the interpreter lock.
        ordered = sorted(sizes, key=lambda file: -sizes[file])
        with ThreadPoolExecutor(max(1, min(_HASHING, len(ordered)))) as pool:
            there = pool.map(lambda file: _is_there(file, cache, runner, mend=mend), ordered)
            for file, is_there in zip(ordered, there, strict=True):
                if is_there:
                    found[file] = sizes[file]
                seen += sizes[file]
                stage.update(seen, detail=file.name)
    return found


def _is_there(file: Download, cache: Path, runner: Runner, *, mend: bool) -> bool:
    runner.raise_if_cancelled()
    return has(file.path(cache), file.sha256, mend=mend)


def _require_room(
    wanted: Sequence[Download], missing: Sequence[Download], cache: Path, keep_free: int, *, unpacked: int, copy: bool
) -> None:
    """Require room for the files that are missing, and for all of them unpacked, as far as their size is known.

    Before the first byte: a disk that is full at the end would waste the whole transfer. Raise TooLarge.
    """
    comes = [d for d in missing if copy or not (d.places and d.places[0].startswith("file://"))]
    download = sum(d.size or 0 for d in comes)
    needed = download + unpacked * sum(d.size or 0 for d in wanted)
    free = shutil.disk_usage(cache).free
    if needed + keep_free > free:
        raise TooLarge(
            f"{size_text(needed)} are needed ({size_text(download)} to download), {size_text(free)} are free, "
            f"of which policies.min_free keeps {size_text(keep_free)}"
        )


def _take_all(
    missing: Sequence[Download],
    cache: Path,
    policies: Policies,
    runner: Runner,
    reporter: Reporter,
    *,
    label: str,
    copy: bool,
) -> dict[Download, Path]:
    """Take the files by threads; return where each is. Raise _LostError, once all others are there."""
    taken, lost, faults = dict[Download, Path](), dict[Download, NotHad](), list[BaseException]()
    todo = SimpleQueue[Download]()
    bounds = Bounds(policies.download_retries, policies.stall_timeout, policies.min_free)
    for file in missing:
        todo.put(file)
    with _bar(missing, reporter, label) as tick:

        def take() -> None:
            while not bounds.over.is_set():
                try:
                    file = todo.get_nowait()
                except Empty:
                    return
                try:
                    taken[file] = take_file(
                        file,
                        cache,
                        bounds,
                        copy=copy,
                        tick=partial(tick, file),
                        say=lambda text: reporter.say(f"{label}: {text}"),
                    )
                except NotHad as error:
                    lost[file] = error
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
                    runner.raise_if_cancelled()
        finally:
            bounds.end()
            for thread in threads:
                thread.join(_GRACE)
        if faults:
            raise faults[0]
        if lost:
            raise _LostError(lost)
    return taken


class _LostError(Exception):
    """Files that no place gave; `failed` has the name, the sha256 and the reasons of each."""

    def __init__(self, lost: Mapping[Download, NotHad]) -> None:
        super().__init__(", ".join(file.name for file in lost))
        self.failed = [{"name": d.name, "sha256": d.sha256, "reasons": e.reasons} for d, e in lost.items()]


@contextmanager
def _bar(files: Sequence[Download], reporter: Reporter, label: str) -> Iterator[Callable[[Download, int], None]]:
    """Yield a function that takes the bytes of a file that came so far, for one bar of all files."""
    came: dict[Download, int] = {}
    lock = threading.Lock()
    stages: list[Stage] = []
    total = sum(file.size or 0 for file in files)
    with ExitStack() as stack:

        def tick(file: Download, done: int) -> None:
            with lock:
                if not stages:  # files in folders that are used where they are need no bar
                    stages.append(stack.enter_context(reporter.stage(f"{label} download", unit="bytes")))
                came[file] = done
                stages[0].update(sum(came.values()), total=total or None, detail=file.name)

        yield tick
