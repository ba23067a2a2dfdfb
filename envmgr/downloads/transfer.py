"""One file into the cache, from the first of its places that gives it; each transfer within a time, a size and a room.

A part file beside the target is locked: a second run waits for the first, and overwrites what a killed one left.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit

from envmgr.downloads import Download, digest_of
from envmgr.downloads.logins import with_login
from envmgr.downloads.web import HostError, HttpAnswer, open_url, within
from envmgr.errors import Interrupted
from envmgr.system.processes import host_mark
from envmgr.wording import size_text

_PIECE = 1 << 20  # bytes
_LOOK_AT_ROOM = 8 << 20  # bytes between two looks at the file system
_LOOK_EVERY = 0.25  # seconds between two looks for a part file's lock
_LEAST_RATE = 1024  # bytes a second, over as long as nothing may come at all: slower ones would go on for days
_SMALL = 600  # seconds in which a small file ends at a lower rate
_LARGEST = 64 << 30  # bytes of a file whose size the lock lacks
_LONGEST = 86_400  # seconds for any one transfer

Reason = tuple[str, str, str]  # URL, `AttemptFailed.kind`, text


class TooLarge(Exception):  # noqa: N818 - the name states the fault in the error
    """The files do not fit, fetched and unpacked."""


class NotHad(Exception):  # noqa: N818 - the name states what happened
    """No place gave the file; `reasons` has one for each place."""

    def __init__(self, reasons: Sequence[Reason]) -> None:
        super().__init__(reasons)
        self.reasons = reasons


class AttemptFailed(Exception):  # noqa: N818 - one attempt's end, not the whole download's
    """One attempt that failed. `kind` is `not-found`, `refused`, `unreachable`, `cut`, `stalled`, `sha256` or
    `server`; `again` is for faults that can pass.
    """

    def __init__(self, kind: str, text: str, *, again: bool) -> None:
        super().__init__(text)
        self.kind = kind
        self.again = again


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of transfers: `retries` of a place, `stall` seconds without a byte, `min_free` bytes of the disk.

    Once they are `over`, each transfer ends with Interrupted at its next piece.
    """

    retries: int
    stall: float
    min_free: int
    over: threading.Event = field(default_factory=threading.Event)
    _answers: set[HttpAnswer] = field(default_factory=set)

    def end(self) -> None:
        """End all transfers, also those that wait for a byte."""
        self.over.set()
        for answer in [*self._answers]:
            answer.hang_up()

    @contextmanager
    def reading(self, answer: HttpAnswer) -> Iterator[None]:
        """Let `end` reach the answer while it is read. Raise Interrupted."""
        self._answers.add(answer)
        try:
            self.raise_if_over()
            yield
        finally:
            self._answers.discard(answer)

    def raise_if_over(self) -> None:
        if self.over.is_set():
            raise Interrupted


class Room:
    """The rest of a file system while files of unknown or wrong size come to `folder`; `keep_free` bytes stay."""

    def __init__(self, folder: Path, keep_free: int) -> None:
        # The first piece is checked, too, because the disk may already be nearly full.
        self._folder, self._keep_free, self._unseen = folder, keep_free, _LOOK_AT_ROOM

    def take(self, size: int) -> None:
        """Count this many bytes that are about to be written. Raise TooLarge."""
        self._unseen += size
        if self._unseen >= _LOOK_AT_ROOM:
            self._unseen = 0
            if (free := shutil.disk_usage(self._folder).free) < self._keep_free:
                raise TooLarge(
                    f"{size_text(free)} are free while it comes, and {size_text(self._keep_free)} are to stay free"
                )


def take_file(
    wanted: Download,
    cache: Path,
    bounds: Bounds,
    *,
    copy: bool,
    tick: Callable[[int], None],
    say: Callable[[str], None],
) -> Path:
    """Return the file with its sha256: in the cache, or in a folder that is among its places, if not to `copy`.

    `tick` gets the bytes that came so far, and `say` a line for each further try.

    Raises:
        NotHad; TooLarge; OSError of the cache; Interrupted.
    """
    target, reasons = wanted.path(cache), list[Reason]()
    for place in wanted.places:
        for attempt in range(bounds.retries + 1):
            try:
                if place.startswith("file://") and not copy:
                    return _in_folder(place, wanted.sha256)
                with _part_file(target, bounds.over) as part:
                    if not (
                        target.is_file() and digest_of(target) == wanted.sha256
                    ):  # another run may have fetched it meanwhile
                        _transfer(place, wanted, part, bounds, tick)
                        Path(part.name).replace(target)
            except AttemptFailed as fault:
                if not fault.again or attempt == bounds.retries:
                    reasons.append((place, fault.kind, str(fault)))
                    break
                say(f"trying again: {place}: {fault}")
                bounds.over.wait(min(0.3 * 2**attempt, 10))  # longer each time, for a server that needs time to recover
            else:
                return target
    raise NotHad(reasons)


def _in_folder(place: str, sha256: str) -> Path:
    with _open_in_folder(place) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise _wrong_sha256(digest, sha256, again=False)
    return Path(file.name)


def _open_in_folder(place: str) -> BufferedReader:
    path = Path(unquote(urlsplit(place).path))
    try:
        # Before `open`, which would wait for the writer of a pipe.
        if not path.is_file():
            raise AttemptFailed("not-found", "no such file", again=False)
        return path.open("rb")
    except OSError as error:
        raise AttemptFailed("refused", error.strerror or str(error), again=False) from None


def _wrong_sha256(found: str, sha256: str, *, again: bool) -> AttemptFailed:
    return AttemptFailed("sha256", f"sha256 is {found}, the lock says {sha256}", again=again)


def _transfer(place: str, wanted: Download, part: BinaryIO, bounds: Bounds, tick: Callable[[int], None]) -> None:
    """Write what comes into `part`, and require the lock's sha256."""
    digest, done, room = hashlib.sha256(), 0, Room(Path(part.name).parent, bounds.min_free)
    most = _LARGEST if wanted.size is None else wanted.size
    for piece in _pieces(place, wanted.size, bounds):
        done += len(piece)
        # Before the write: a server that sends without end must not fill the disk.
        if done > most:
            raise AttemptFailed("sha256", f"more than the {size_text(most)} of the lock", again=False)
        room.take(len(piece))
        part.write(piece)
        digest.update(piece)
        tick(done)
    part.flush()  # other processes see its final name next
    if digest.hexdigest() != wanted.sha256:
        # A server may send a good copy the next time; a file in a folder does not change between two attempts.
        raise _wrong_sha256(digest.hexdigest(), wanted.sha256, again=not place.startswith("file://"))


def _pieces(place: str, size: int | None, bounds: Bounds) -> Iterator[bytes]:
    """Yield the bytes of a place. Raise AttemptFailed, also for a transfer that would go on for days."""
    if place.startswith("file://"):
        with _open_in_folder(place) as file:
            while piece := _read(file):
                bounds.raise_if_over()
                yield piece
        return
    least = min(_LEAST_RATE, size / _SMALL) if size else _LEAST_RATE
    done = before = 0
    try:
        with _open(place, bounds) as answer, bounds.reading(answer):
            began = time.monotonic()
            ends = began + _LONGEST
            while piece := answer.read1(_PIECE):  # what is there: a drip is seen as one
                bounds.raise_if_over()
                done += len(piece)
                yield piece
                now = time.monotonic()
                if now - began > bounds.stall:
                    if done - before < least * bounds.stall:
                        came = f"{size_text(done - before)} in {bounds.stall:g} s after {size_text(before)}"
                        raise AttemptFailed("stalled", came, again=True)
                    began, before = now, done
                if now > ends:
                    hours = f"not done after {_LONGEST // 3600} hours, {size_text(done)} came"
                    raise AttemptFailed("stalled", hours, again=True)
    except TimeoutError:
        said = f"no byte for {bounds.stall:g} s after {size_text(done)}"
        raise AttemptFailed("stalled", said, again=True) from None
    except HostError:
        bounds.raise_if_over()  # it was hung up
        raise AttemptFailed("cut", "the transfer ended early", again=True) from None


def _read(file: BufferedReader) -> bytes:
    try:
        return file.read(_PIECE)
    except OSError as error:
        raise AttemptFailed("refused", error.strerror or str(error), again=False) from None


def _open(place: str, bounds: Bounds) -> HttpAnswer:
    """Return the answer of a server. Raise AttemptFailed; TimeoutError."""
    bare, secrets = with_login(place)
    try:
        return within(bounds.stall, lambda: open_url(bare, secrets=secrets, stall=bounds.stall), bounds.over)
    except HTTPError as error:
        again = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        gone = error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
        kind = "server" if again else "not-found" if gone else "refused"
        raise AttemptFailed(kind, f"{error.code} {error.reason}", again=again) from None
    except HostError as error:
        raise AttemptFailed("unreachable", error.words, again=error.was_connected) from None
    except ValueError:
        raise AttemptFailed("refused", "only http(s):// URLs and folders are fetched from", again=False) from None
    except TimeoutError:
        raise
    except OSError as error:  # redirects without end: no fault of the disk
        raise AttemptFailed("refused", str(error), again=False) from None


@contextmanager
def _part_file(target: Path, over: threading.Event) -> Iterator[BinaryIO]:
    """Yield an empty part file beside `target`, locked. It goes at the end, and an empty folder with it.

    Each host has its own: if locks stay on each client, two hosts would write into one.
    """
    part = target.with_name(f".{target.name}.{host_mark()}.part")
    while True:
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # the folder was empty, and went
            file = part.open("ab")  # `wb` would empty the file of the run that holds the lock
            if _is_locked(part, file):
                break
            file.close()
        if over.wait(_LOOK_EVERY):
            raise Interrupted
    try:
        file.truncate(0)
        yield file
    finally:
        # The lock is still held, so no other run writes it. After `replace` it is already gone.
        part.unlink(missing_ok=True)
        file.close()
        with suppress(OSError):
            target.parent.rmdir()  # only an empty one goes


def _is_locked(part: Path, file: BinaryIO) -> bool:
    """Lock the file, and return whether it still is the part file, which the run before may have renamed or removed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(part.stat(), os.fstat(file.fileno()))
    except (BlockingIOError, FileNotFoundError):
        return False
