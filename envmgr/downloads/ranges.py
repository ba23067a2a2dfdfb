"""A file on a server that is read in parts, such as the directory of an archive and one member of it."""

from __future__ import annotations

import io
import re
from typing import Any

from envmgr.downloads.web import Page, read_page

_FIRST = 1 << 16  # bytes of the end that are asked first: the whole directory of most archives


class RemoteFile(io.RawIOBase):
    """A file at a URL, for `zipfile`. All parts together have at most `most` bytes.

    Raises:
        OSError: no server answers, or it gives only whole files; ValueError: more was read.
    """

    def __init__(self, url: str, *, most: int) -> None:
        self._url, self._left = url, most
        found = self._ask(f"bytes=-{_FIRST}")
        self._end, self._size = found.content, int(found.part.rpartition("/")[2])
        self._from = self._size - len(self._end)
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
            part = self._ask(f"bytes={self._place}-{last - 1}").content
        part = part[: len(buffer)]
        buffer[: len(part)] = part
        self._place += len(part)
        return len(part)

    def _ask(self, part: str) -> Page:
        page = read_page(self._url, most=self._left, headers={"Range": part})
        if not re.fullmatch(r"bytes \d+-\d+/\d+", page.part):
            raise OSError(f"{self._url}: the server gives no parts of a file")
        self._left -= len(page.content)
        return page
