"""One transfer within bounds: the room for its bytes, its size and its rate; and why one attempt failed.

Runs inside a worker.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from envmgr.system.worker import emit
from envmgr.wording import size_text

_LOOK_AT_ROOM = 8 << 20  # bytes between two looks at the file system
_HEAD_TIMEOUT = 2  # seconds
_LEAST_RATE = 1024  # bytes a second, over as long as nothing may come at all: slower ones would go on for days
_SMALL = 600  # seconds in which a small file ends at a lower rate
_TELL_EVERY = 0.1  # seconds between two progress events of one download
LOOK_EVERY = 0.25  # seconds between two looks for a stalled transfer
_LARGEST = 64 << 30  # bytes of a file whose size the lock lacks
_LONGEST = 86_400  # seconds for any one transfer

_PROXIES = ("https_proxy", "http_proxy", "all_proxy")

# A file to have: `name` in events, `file` its name in the cache, `sha256`, `places` in order, `size` (bytes) or None.
DownloadRecord = Mapping[str, Any]


class TooLarge(Exception):  # noqa: N818 - the name states the fault in the parent's error
    """The files do not fit, fetched and unpacked."""


class Room:
    """The rest of a file system while files of unknown or wrong size come to `folder`; `keep_free` bytes stay."""

    def __init__(self, folder: Path, keep_free: int) -> None:
        # The first piece is checked, too, because the disk may already be nearly full.
        self._folder, self._keep_free, self._unseen = folder, keep_free, _LOOK_AT_ROOM

    def take(self, size: int) -> None:
        """Count this many bytes that were written, or are about to be. Raise TooLarge."""
        self._unseen += size
        if self._unseen >= _LOOK_AT_ROOM:
            self._unseen = 0
            if (free := shutil.disk_usage(self._folder).free) < self._keep_free:
                raise TooLarge(
                    f"{size_text(free)} are free while it comes, and {size_text(self._keep_free)} are to stay free"
                )


async def require_download_space(
    records: Sequence[DownloadRecord], cache: Path, *, keep_free: int, unpacked: int = 0, keep: bool = False
) -> None:
    """Require room for the files that are missing, and for all of them unpacked (`unpacked` times as large).

    An unknown size is asked of the first place that knows it; `keep_free` bytes stay free. With `keep`, files in
    folders need room too: they are copied. Raise TooLarge.
    """
    silent: set[str] = set()  # hosts that did not answer: not asked again for every file

    def told(place: str) -> int:
        host = urlsplit(place).netloc
        if host in silent:
            return 0
        try:
            return _told_size(place)
        except (OSError, ValueError):
            silent.add(host)
            return 0

    def size_of(record: DownloadRecord) -> tuple[int, bool]:
        file = cache / record["sha256"] / record["file"]
        if file.is_file():
            return file.stat().st_size, True
        places = record["places"]
        size = record.get("size") or next((s for p in places if (s := told(p))), 0)
        return size, not keep and bool(places) and places[0].startswith("file://") and bool(told(places[0]))

    gate = asyncio.Semaphore(16)

    async def one(record: DownloadRecord) -> tuple[int, bool]:
        async with gate:
            return await asyncio.to_thread(size_of, record)

    sizes = await asyncio.gather(*(one(r) for r in records))
    download = sum(size for size, here in sizes if not here)
    needed = download + unpacked * sum(size for size, _ in sizes)
    free = shutil.disk_usage(cache).free
    if needed + keep_free > free:
        raise TooLarge(
            f"{size_text(needed)} are needed ({size_text(download)} to download), {size_text(free)} are free, "
            f"of which policies.min_free keeps {size_text(keep_free)}"
        )


def _told_size(place: str) -> int:
    """Return the bytes of a file or of what a server would send; 0 if it does not say. OSError if the host does not
    answer.
    """
    if place.startswith("file://"):
        path = Path(unquote(urlsplit(place).path))
        return path.stat().st_size if path.is_file() else 0
    if not place.startswith(("http://", "https://")):
        return 0
    import urllib.error

    from envmgr.downloads.web import open_url

    try:
        with open_url(place, method="HEAD", stall=_HEAD_TIMEOUT) as answer:
            return int(answer.headers.get("Content-Length") or 0)
    except urllib.error.HTTPError:
        return 0  # the host answers; the download itself will say what is wrong


class OversizedError(OSError):
    """More came than the lock says: no more of it is written."""

    def __init__(self, size: int) -> None:
        super().__init__(f"more than the {size_text(size)} of the lock")


class Writer:
    """The target of rattler's stream: it counts, hashes, checks the room, and reports progress."""

    def __init__(self, file: BinaryIO, name: str, size: int | None, room: Room) -> None:
        self.digest = hashlib.sha256()
        self.done = 0
        self.moved = time.monotonic()
        self.error: OSError | TooLarge | None = None
        self._file, self._name, self._size, self._room = file, name, size, room
        self._told = 0.0
        self.least_rate = min(_LEAST_RATE, size / _SMALL) if size else _LEAST_RATE
        emit("download", name=name, done=0, total=size)

    def write(self, data: bytes) -> int:
        # Before the write: a server that sends without end must not fill the disk.
        if self.done + len(data) > (_LARGEST if self._size is None else self._size):
            self.error = OversizedError(self._size or _LARGEST)
            raise self.error
        try:
            self._room.take(len(data))
            self._file.write(data)
        except (OSError, TooLarge) as error:
            self.error = error  # rattler's own error would not say that it was the disk
            raise
        self.digest.update(data)
        self.done += len(data)
        self.moved = time.monotonic()
        if self.moved - self._told >= _TELL_EVERY or self.done == self._size:
            self._told = self.moved
            emit("download", name=self._name, done=self.done, total=self._size)
        return len(data)


async def unless_stalled(task: asyncio.Future[None], writer: Writer, stall_timeout: float) -> None:
    """Wait for the download; AttemptFailed `stalled` if no byte came for `stall_timeout` seconds, or so few that it
    would go on for days.
    """
    began, before = time.monotonic(), 0
    end = began + _LONGEST
    while True:
        finished, _ = await asyncio.wait({task}, timeout=min(LOOK_EVERY, stall_timeout))
        if finished:
            await task
            return
        now, came, said = time.monotonic(), writer.done - before, ""
        if now - writer.moved > stall_timeout:
            said = f"no byte for {stall_timeout:g} s after {size_text(writer.done)}"
        elif not writer.done:  # a server may take its time for the first byte
            began = now
        elif now - began > stall_timeout:
            if came < writer.least_rate * stall_timeout:
                said = f"{size_text(came)} in {stall_timeout:g} s after {size_text(before)}"
            began, before = now, writer.done
        if now > end:
            said = f"not done after {_LONGEST // 3600} hours, {size_text(writer.done)} came"
        if said:
            task.cancel()
            # The task may write until it ends, and its own error does not matter any more.
            with suppress(asyncio.CancelledError, Exception):
                await task
            raise AttemptFailed("stalled", said, again=True)


class AttemptFailed(Exception):  # noqa: N818 - one attempt's end, not the whole download's
    """One attempt that failed. `kind` is `not-found`, `refused`, `unreachable`, `cut`, `stalled`, `sha256` or
    `server`.
    """

    def __init__(self, kind: str, text: str, *, again: bool) -> None:
        super().__init__(text)
        self.kind = kind
        self.again = again


def wrong_sha256(found: str, sha256: str, *, again: bool = False) -> AttemptFailed:
    return AttemptFailed("sha256", f"sha256 is {found}, the lock says {sha256}", again=again)


def attempt_failed(error: Exception, place: str) -> AttemptFailed:
    """Sort what rattler says by what can be done about it."""
    text = str(error)
    if "client error (404" in text or "client error (410" in text:
        return AttemptFailed("not-found", "404 Not Found", again=False)
    if "HTTP status client error (" in text:
        return AttemptFailed("refused", text.partition("(")[2].partition(")")[0], again=False)
    if "HTTP status server error (" in text:
        return AttemptFailed("server", text.partition("(")[2].partition(")")[0], again=True)
    if "error sending request" in text:
        reason = _why_unreachable(place)
        # If the host accepts a connection now, the fault can pass. Otherwise another attempt will not help.
        return AttemptFailed("unreachable", reason or "the request was not answered", again=not reason)
    if "decoding response body" in text or "end of file" in text:
        return AttemptFailed("cut", "the transfer ended early", again=True)
    return AttemptFailed("server", text, again=True)


def _why_unreachable(place: str) -> str:
    """Return the system's reason why a host cannot be reached, which rattler does not report; empty if it can."""
    parts = urlsplit(place)
    # Behind a proxy, a direct connection says nothing about the host.
    if any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES):
        return ""
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=3).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
