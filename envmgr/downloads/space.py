"""The room for files that will be fetched, checked before the first byte. Runs inside a worker."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from envmgr.wording import size_text

_LOOK_EVERY = 8 << 20  # bytes between two looks at the file system
_HEAD_TIMEOUT = 2  # seconds
DownloadRecord = Mapping[str, Any]


class TooLarge(Exception):  # noqa: N818 - the name states the fault in the parent's error
    """The files do not fit, fetched and unpacked."""


class Room:
    """The rest of a file system while files of unknown or wrong size come to `folder`; `keep_free` bytes stay."""

    def __init__(self, folder: Path, keep_free: int) -> None:
        self._folder, self._keep_free, self._unseen = folder, keep_free, _LOOK_EVERY

    def take(self, size: int) -> None:
        """Count this many bytes that were written, or are about to be. Raise TooLarge."""
        self._unseen += size
        if self._unseen >= _LOOK_EVERY:
            self._unseen = 0
            self.require()

    def require(self) -> None:
        """Raise TooLarge if no room is left."""
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
        import http.client  # loads as slowly as a small download, and few locks lack sizes

        host = urlsplit(place).netloc
        if host in silent:
            return 0
        try:
            return _told_size(place)
        except (OSError, ValueError, http.client.HTTPException):
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
