"""Package archives into the cache, each checked against the lock's sha256. Runs inside the rattler worker.

The cache keeps archives, not unpacked packages: an archive can be held against the lock at every use, an unpacked tree only
against itself; and no install shares a file with it. `<cache>/<sha256>/<file name>`.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
import socket
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from envmgr.files import megabytes

AT_ONCE = 6  # downloads side by side
_TELL_EVERY = 0.1  # seconds between two progress events of one download
_HEAD_TIMEOUT = 2  # seconds
_LOOK_EVERY = 0.25  # seconds between two looks for a stalled transfer

Emit = Callable[..., None]
Record = Mapping[str, Any]


class DownloadError(Exception):
    """No place gave the package. `reasons` is `(url, kind, text)` per place, kind of `Fault.kind`."""

    def __init__(self, name: str, reasons: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(name, reasons)
        self.name = name
        self.reasons = list(reasons)


class Fault(Exception):  # noqa: N818 - one attempt's end, not the whole download's
    """One attempt that failed. `kind` is `not-found`, `refused`, `unreachable`, `cut`, `stalled`, `sha256` or `server`."""

    def __init__(self, kind: str, text: str, *, again: bool) -> None:
        super().__init__(text)
        self.kind = kind
        self.again = again


async def fetch_all(
    records: Sequence[Record], cache: Path, client: Any, emit: Emit, *, retries: int, stall_timeout: float
) -> dict[str, str]:
    """Package name -> `file://` URL of an archive with the lock's sha256; the first failure ends the others.

    A record's `places` are tried in order: folders (`file://`) are used where they are, archives from the network go through
    a part file into the cache. `retries` is per place, for faults that can pass; `stall_timeout` is seconds without a byte.

    Raises:
        DownloadError: every place of one package failed; OSError: the cache cannot be written.
    """
    gate = asyncio.Semaphore(AT_ONCE)
    found: dict[str, str] = {}

    async def one(record: Record) -> None:
        async with gate:
            found[record["name"]] = await _fetch(record, cache, client, emit, retries, stall_timeout)
        emit("cached", name=record["name"])

    tasks = [asyncio.ensure_future(one(r)) for r in records]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    return found


class TooLarge(Exception):  # noqa: N818 - what is the matter, in the parent's error
    """What is to be fetched and unpacked does not fit."""


async def require_space(records: Sequence[Record], cache: Path, *, keep_free: int, unpacked: int) -> None:
    """Before the first byte: room for the archives that are missing, and for all of them unpacked (`unpacked` times as large).

    A size that the lock does not have is asked of the first place that tells it; `keep_free` bytes stay free.
    Raises TooLarge.
    """
    silent: set[str] = set()  # hosts that did not answer: not asked again for every package

    def told(place: str) -> int:
        host = urlsplit(place).netloc
        if host in silent:
            return 0
        try:
            return _told_size(place)
        except (OSError, ValueError):
            silent.add(host)
            return 0

    def size_of(record: Record) -> tuple[int, bool]:
        file = cache / record["sha256"] / record["url"].rpartition("/")[2]
        if file.is_file():
            return file.stat().st_size, True
        size = record.get("size") or next((s for p in record["places"] if (s := told(p))), 0)
        return size, record["places"][0].startswith("file://") and bool(told(record["places"][0]))

    gate = asyncio.Semaphore(16)

    async def one(record: Record) -> tuple[int, bool]:
        async with gate:
            return await asyncio.to_thread(size_of, record)

    sizes = await asyncio.gather(*(one(r) for r in records))
    download = sum(size for size, here in sizes if not here)
    needed = download + unpacked * sum(size for size, _ in sizes)
    free = shutil.disk_usage(cache).free
    if needed + keep_free > free:
        raise TooLarge(
            f"{megabytes(needed)} are needed ({megabytes(download)} to download), {megabytes(free)} are free, "
            f"of which policies.min_free keeps {megabytes(keep_free)}"
        )


def _told_size(place: str) -> int:
    """Bytes of a file or of what a server would send; 0 where that is not told. OSError when the host does not answer."""
    if place.startswith("file://"):
        path = Path(unquote(urlsplit(place).path))
        return path.stat().st_size if path.is_file() else 0
    request = urllib.request.Request(place, method="HEAD")  # noqa: S310 - http(s), from the site or the lock
    try:
        with urllib.request.urlopen(request, timeout=_HEAD_TIMEOUT) as answer:  # noqa: S310
            return int(answer.headers.get("Content-Length") or 0)
    except urllib.error.HTTPError:
        return 0  # the host answers; the download itself will say what is wrong


async def _fetch(record: Record, cache: Path, client: Any, emit: Emit, retries: int, stall_timeout: float) -> str:
    target: Path = cache / record["sha256"] / record["url"].rpartition("/")[2]
    if await asyncio.to_thread(_has, target, record["sha256"]):
        return target.as_uri()
    reasons: list[tuple[str, str, str]] = []
    for place in record["places"]:
        for attempt in range(retries + 1):
            try:
                if place.startswith("file://"):
                    return await asyncio.to_thread(_from_folder, place, record["sha256"])
                await _from_network(place, record, target, client, emit, stall_timeout)
            except Fault as fault:
                last = (place, fault.kind, str(fault))
                if fault.again and attempt < retries:
                    emit("retry", name=record["name"], message=f"{place}: {fault}", attempt=attempt + 1)
                    await asyncio.sleep(min(0.3 * 2**attempt, 10))
                    continue
                reasons.append(last)
                break
            else:
                return target.as_uri()
    raise DownloadError(record["name"], reasons)


def _has(path: Path, sha256: str) -> bool:
    """Whether the cache has the archive; one that was damaged since is removed, never used."""
    if not path.is_file():
        return False
    if _sha256(path) == sha256:
        return True
    path.unlink()
    return False


def _from_folder(place: str, sha256: str) -> str:
    path = Path(unquote(urlsplit(place).path))
    if not path.is_file():
        raise Fault("not-found", "no such file", again=False)
    if (digest := _sha256(path)) != sha256:
        raise Fault("sha256", f"sha256 is {digest}, the lock says {sha256}", again=False)
    return place


async def _from_network(
    place: str, record: Record, target: Path, client: Any, emit: Emit, stall_timeout: float
) -> None:
    from rattler.package_streaming import download_to_writer

    async with _part_file(target) as (part, file):
        if await asyncio.to_thread(_has, target, record["sha256"]):
            part.unlink()  # somebody else fetched it meanwhile
            return
        try:
            writer = _Writer(file, record["name"], record.get("size"), emit)
            task = asyncio.ensure_future(download_to_writer(client, place, writer))
            try:
                await _unless_stalled(task, writer, stall_timeout)
            except asyncio.CancelledError:
                task.cancel()
                raise
            except (OSError, RuntimeError) as error:
                if writer.error is not None:
                    raise writer.error from None  # our disk, not their network
                raise await asyncio.to_thread(_explain, error, place) from None
            if writer.digest.hexdigest() != record["sha256"]:
                text = f"sha256 is {writer.digest.hexdigest()}, the lock says {record['sha256']}"
                raise Fault("sha256", text, again=True)
            file.flush()
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
            with suppress(OSError):
                target.parent.rmdir()  # only an empty one goes
    emit("downloaded", name=record["name"], done=writer.done)


@asynccontextmanager
async def _part_file(target: Path) -> AsyncIterator[tuple[Path, BinaryIO]]:
    """An empty part file beside `target`, locked: who fetches the same archive waits, and a killed fetch is written over."""
    part = target.with_name(f".{target.name}.part")
    while True:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = part.open("ab")
        except FileNotFoundError:  # the folder was empty, and went
            continue
        try:
            if _lock(file) and _is_still(part, file):
                file.truncate(0)
                yield part, file
                return
        finally:
            file.close()
        await asyncio.sleep(_LOOK_EVERY)


def _lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: Path, file: BinaryIO) -> bool:
    """Whether `file` is what lies at `path`: the one who had it before us may have renamed or removed it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


class _Writer:
    """What rattler writes the stream into: counts, hashes, and tells progress."""

    def __init__(self, file: BinaryIO, name: str, size: int | None, emit: Emit) -> None:
        self.digest = hashlib.sha256()
        self.done = 0
        self.moved = time.monotonic()
        self.error: OSError | None = None
        self._file, self._name, self._size, self._emit = file, name, size, emit
        self._told = 0.0
        emit("download", name=name, done=0, total=size)

    def write(self, data: bytes) -> int:
        try:
            self._file.write(data)
        except OSError as error:
            self.error = error  # rattler's own error would not say that it was the disk
            raise
        self.digest.update(data)
        self.done += len(data)
        self.moved = time.monotonic()
        if self.moved - self._told >= _TELL_EVERY or self.done == self._size:
            self._told = self.moved
            self._emit("download", name=self._name, done=self.done, total=self._size)
        return len(data)


async def _unless_stalled(task: asyncio.Future[None], writer: _Writer, stall_timeout: float) -> None:
    """Wait for the download; Fault `stalled` when no byte came for `stall_timeout` seconds."""
    while True:
        finished, _ = await asyncio.wait({task}, timeout=min(_LOOK_EVERY, stall_timeout))
        if finished:
            await task
            return
        if time.monotonic() - writer.moved > stall_timeout:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
            raise Fault("stalled", f"no byte for {stall_timeout:g} s after {writer.done} bytes", again=True)


def _explain(error: Exception, place: str) -> Fault:
    """Sort what rattler says by what can be done about it."""
    text = str(error)
    if "client error (404" in text or "client error (410" in text:
        return Fault("not-found", "404 Not Found", again=False)
    if "HTTP status client error (" in text:
        return Fault("refused", text.partition("(")[2].partition(")")[0], again=False)
    if "HTTP status server error (" in text:
        return Fault("server", text.partition("(")[2].partition(")")[0], again=True)
    if "error sending request" in text:
        reason = _why_unreachable(place)
        return Fault("unreachable", reason or "the request was not answered", again=not reason)
    if "decoding response body" in text or "end of file" in text:
        return Fault("cut", "the transfer ended early", again=True)
    return Fault("server", text, again=True)


def _why_unreachable(place: str) -> str:
    """The system's word on why a host cannot be reached; rattler keeps it to itself. Empty when it can be."""
    parts = urlsplit(place)
    if any(
        os.environ.get(name)
        for name in ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
    ):
        return ""
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=3).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
