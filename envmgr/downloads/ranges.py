"""A file on a server that is read in parts, such as the directory of an archive and one member of it."""

from __future__ import annotations

import io
import re
import time
from typing import Any

from envmgr.downloads.web import read_page

_FIRST = 1 << 16  # bytes of the end that are asked first: the whole directory of most archives
_MOST_PARTS = 40
_LONGEST = 60.0  # seconds for all parts
_MOST = 1 << 36  # bytes of a file


class RemoteFile(io.RawIOBase):
    """A file at a URL, for `zipfile`. All parts together have at most `most` bytes.

    Raises:
        OSError: no server answers, or it gives other parts than were asked, or only whole files; ValueError: more was
            read.
    """

    def __init__(self, url: str, *, most: int) -> None:
        self._url, self._left, self._parts = url, most, _MOST_PARTS
        self._ends = time.monotonic() + _LONGEST
        self._end, self._from, self._size = self._ask(f"bytes=-{_FIRST}")
        if self._from + len(self._end) != self._size or self._size > _MOST:
            raise OSError(f"{url}: the server gives another part of the file than its end")
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        last = min(self._place + len(buffer), self._size)
        if last <= self._place:
            return 0
        if self._place >= self._from:
            part = self._end[self._place - self._from : last - self._from]
        else:
            if last - self._place > self._left:
                raise ValueError(f"{self._url}: more than {self._left} bytes of it were to be read")
            part, *place = self._ask(f"bytes={self._place}-{last - 1}")
            if place != [self._place, self._size] or len(part) != last - self._place:
                raise OSError(f"{self._url}: the server gives another part of the file than was asked")
        buffer[: len(part)] = part
        self._place += len(part)
        return len(part)

    def _ask(self, part: str) -> tuple[bytes, int, int]:
        """Return a part, where it begins, and the size of the whole file."""
        self._parts -= 1
        left = self._ends - time.monotonic()
        if self._parts < 0 or left <= 0:
            raise OSError(f"{self._url}: the server gives the file in too small parts")
        page = read_page(self._url, most=self._left, headers={"Range": part}, longest=left)
        if not (place := re.fullmatch(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})", page.part)):
            raise OSError(f"{self._url}: the server gives no parts of a file")
        self._left -= len(page.content)
        return page.content, int(place[1]), int(place[3])
