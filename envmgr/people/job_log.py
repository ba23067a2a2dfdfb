"""The log of a job: the lines in which `envmgr job` has written what was loaded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envmgr.system.untrusted_files import ANYWHERE, Kind, open_untrusted

_END = 8 << 20  # bytes at the beginning, and as many at the end, that are read of a log
_LOG = Kind("log", 1 << 62)
# A part counts only if what follows it is there, too: a full disk cuts lines anywhere.
_LINE = re.compile(
    rb"^envmgr: (?P<entry>[\w.+-]+/[\w.+-]+), (?:generation (?P<generation>\d{1,9}), "
    rb"(?:digest (?P<digest>[0-9a-f]{8}), (?:on (?P<nodes>\S+?)"
    rb"(?:, driver (?P<driver>[0-9.]+) on (?P<host>\S+))?\r?\n)?)?)?",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class LoggedLoad:
    """A line of a log. Empty texts and None are parts that are cut. `driver` is that of the node `host`."""

    entry: str
    generation: int | None
    digest: str
    nodes: str
    driver: str
    host: str

    @property
    def cut(self) -> bool:
        return not self.nodes


@dataclass(frozen=True, slots=True)
class JobLog:
    """A log: its loads in their order, the time of its last change, seconds since the epoch, and its owner. `unread` are
    bytes in its middle that were not read.
    """

    path: Path
    loads: tuple[LoggedLoad, ...]
    time: float
    unread: int
    uid: int


def read_log(path: Path) -> JobLog:
    """Return what a log says. Of a large one only the beginning and the end are read.

    Raises:
        InputError: `file-irregular`; OSError as `open` does.
    """
    with open_untrusted(path, _LOG, tree=ANYWHERE) as descriptor:
        status = os.fstat(descriptor)
        pieces = [os.pread(descriptor, _END, 0)]
        after = max(_END, status.st_size - _END)
        if status.st_size > _END:
            pieces.append(os.pread(descriptor, _END, after))
    found = [load for piece in pieces for load in _loads(piece)]
    unread = after - _END if status.st_size > _END else 0
    return JobLog(path, tuple(found), status.st_mtime, unread, status.st_uid)


def _loads(data: bytes) -> Iterator[LoggedLoad]:
    # What envmgr wrote is ASCII in every encoding but UTF-16, where a zero stands beside each letter.
    for match in _LINE.finditer(data.replace(b"\0", b"")):
        part = {key: (value or b"").decode() for key, value in match.groupdict().items()}
        number = int(part.pop("generation") or 0)
        yield LoggedLoad(generation=number or None, **part)
