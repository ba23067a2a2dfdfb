"""Reading what others may have written: catalogs, locks, records, history. Only regular files, up to a size, and
through no link that leaves its tree.

A file is looked at before it is opened, so that a device does not notice; and again by the descriptor that it is read
from, because something may have taken its place. A pipe is never waited for.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envmgr.errors import EnvmgrError, InputError
from envmgr.system.invisible import LINES, TABS, hidden_values, is_plain, require_visible
from envmgr.wording import one_line

ANYWHERE = Path("/")
"""The tree of a file that a person named, or that lies in another program's install: links may lead anywhere."""

_PIECE = 256 << 10  # bytes
MOST_LOCKED = 500_000  # keys and values of a lock
_MOST_FILES = 10_000  # of a tree that is copied
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of a file: `what` it is in messages, and how many bytes one may have.

    `also` are unseen characters that a text of this kind may have all the same; None if nobody reviews it.
    """

    what: str
    most: int
    also: str | None = None


# Many times what the largest that were ever seen have.
RECIPE = Kind("recipe", 1 << 20, TABS)
SOFTWARE = Kind("software file", 1 << 20, TABS)
SITE = Kind("site file", 1 << 20, TABS)
TEST_FILE = Kind("test's file", 1 << 20)
REQUIREMENTS = Kind("file of requirements", 4 << 20, LINES)
BESIDE = Kind("file beside the recipe", 16 << 20)
LOCK = Kind("lock", 16 << 20, LINES)
ROW = Kind("record", 16 << 20)
GENERATION = Kind("generation's record", 256 << 20)
FACTS = Kind("record", 256 << 20)
MANIFEST = Kind("manifest", 1 << 30)
HISTORY = Kind("history", 256 << 20)
BASELINE = Kind("baseline", 256 << 20)
PLACE = Kind("path of a prefix", 16 << 10)
FLIP = Kind("flip", 64 << 10)
IMAGE = Kind("image", 1 << 44)
IMAGE_RECORD = Kind("record of an image", 64 << 10)
SIGNATURE = Kind("signature", 64 << 10)
SIGNERS = Kind("list of allowed signers", 1 << 20, TABS)


def read_bytes(path: Path, kind: Kind, *, tree: Path | None = None, until: bytes = b"") -> bytes:
    """Return the file's content, or what comes before the first byte `until`.

    A link is followed only if it stays below `tree`; without `tree`, the file itself must not be a link.

    Raises:
        InputError: `file-irregular`, `file-too-large`; OSError as `open` does.
    """
    with open_untrusted(path, kind, tree=tree) as descriptor:
        return _read(descriptor, path, kind, until)


def read_in(folder: int, path: Path, kind: Kind, check: Callable[[os.stat_result], None]) -> bytes:
    """Return the content of the file that has the name of `path` in an open folder, no link, once `check` has seen its
    owner. Errors as `read_bytes`, and what `check` raises.
    """
    descriptor = _open(path, kind, None, folder)
    try:
        check(os.fstat(descriptor))
        return _read(descriptor, path, kind)
    finally:
        os.close(descriptor)


def _read(descriptor: int, path: Path, kind: Kind, until: bytes = b"") -> bytes:
    data = bytearray()
    while piece := os.read(descriptor, _PIECE):
        data += piece
        _require_small(path, len(data), kind)
        if until and until in piece:
            return bytes(data[: data.index(until)])
    return bytes(data)


def read_file_text(path: Path, kind: Kind, *, tree: Path | None = None) -> str:
    """Return the text. Errors as `read_bytes`; InputError also if it is missing, unreadable or not UTF-8, and
    `text-invisible`.
    """
    try:
        return _decoded(read_bytes(path, kind, tree=tree), path, kind)
    except FileNotFoundError:
        raise InputError("file-missing", f"{kind.what} {one_line(path)} does not exist") from None
    except OSError as error:
        raise InputError(
            "file-unreadable", f"cannot read {kind.what} {one_line(path)}", context=one_line(error)
        ) from None
    except UnicodeDecodeError as error:
        raise InputError("yaml-syntax", f"{one_line(path)}: not UTF-8 (byte {error.start})") from None


def read_json(path: Path, kind: Kind, *, tree: Path | None = None, most: int | None = None) -> Any:
    """Read a JSON file. Errors as `read_bytes` and `parse_json`; InputError `text-invisible`."""
    data = read_bytes(path, kind, tree=tree)
    if kind.also is None:
        return parse_json(data, most=most)
    text = _decoded(data, path, kind)
    found = parse_json(data, most=most)
    if not is_plain(text):
        require_visible_values(found, path, kind.also)
    return found


def parse_json(data: bytes, *, most: int | None = None) -> Any:
    """Parse JSON.

    Raises ValueError for invalid JSON, for nesting deeper than Python reads, and for possibly more than `most` values.
    """
    # Counted before parsing: the parsed values take many times the memory of the text.
    if most is not None and sum(data.count(mark) for mark in (b",", b":", b"[", b"{")) > most:
        raise ValueError(f"more than {most} keys and values")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _decoded(data: bytes, path: Path, kind: Kind) -> str:
    """Decode UTF-8. Raises UnicodeDecodeError, which is a ValueError; InputError `text-invisible`."""
    text = data.decode()
    if kind.also is not None:
        require_visible(text, one_line(path), also=kind.also)
    return text


def require_visible_values(data: Any, path: Path, also: str) -> None:
    """Raise InputError `text-invisible` for the first text of a JSON document that has such a character."""
    for place, reason in hidden_values(data, also):
        field = ".".join(one_line(part, 60) for part in place)
        raise InputError("text-invisible", f"{one_line(path)}: {field}: {reason}", hint="`envmgr lock` writes it again")


def digest_of(path: Path, kind: Kind, *, tree: Path | None = None) -> str:
    """Return the sha256 of the file's content. Errors as `read_bytes`."""
    digest, size = hashlib.sha256(), 0
    with open_untrusted(path, kind, tree=tree) as descriptor:
        while piece := os.read(descriptor, _PIECE):
            digest.update(piece)
            size += len(piece)
            _require_small(path, size, kind)
    return digest.hexdigest()


def require_visible_patch(data: bytes, path: Path) -> None:
    """Raise InputError `text-invisible` for a patch of the catalog that shows a reviewer other lines than the compiler
    reads.

    It may hold bytes that are not UTF-8, form feeds, and Windows' line ends, as the sources do that it changes.
    """
    text = data.decode(errors="surrogateescape")
    require_visible(text.replace("\r\n", "\n"), one_line(path), also=f"{TABS}\f")


def copy_file(path: Path, place: Path, kind: Kind, *, tree: Path | None = None) -> None:
    """Copy the file's content to a new file. Errors as `read_bytes`."""
    with open_untrusted(path, kind, tree=tree) as descriptor, place.open("wb") as copy:
        size = 0
        while piece := os.read(descriptor, _PIECE):
            size += len(piece)
            _require_small(path, size, kind)
            copy.write(piece)


def copy_files(folder: Path, place: Path, kind: Kind, *, tree: Path) -> None:
    """Copy the regular files of a folder, and of folders in it that are no links, into the new folder `place`.

    Raises:
        InputError: `file-irregular` for anything else in it, `file-too-large`; OSError.
    """
    from envmgr.system.files import write_new  # most runs copy nothing

    waiting, left = [(folder, place)], _MOST_FILES
    while waiting:
        source, target = waiting.pop()
        target.mkdir(parents=True, exist_ok=True)
        with os.scandir(source) as entries:
            for entry in entries:
                left -= 1
                if left < 0:
                    raise InputError("file-too-large", f"{one_line(folder)} has more than {_MOST_FILES} files")
                path = source / entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((path, target / entry.name))
                else:
                    write_new(target / entry.name, read_bytes(path, kind, tree=tree), mode=0o644)


@contextmanager
def open_untrusted(path: Path, kind: Kind, *, tree: Path | None) -> Iterator[int]:
    """Open the file and return a descriptor for reading. Errors as `read_bytes`."""
    descriptor = _open(path, kind, tree)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def append_line(path: Path, line: str) -> None:
    """Add a line, on a line of its own if the last one was cut. Raise OSError, also if `path` is no regular file."""
    # O_RDWR, because the last byte shows whether the last line is complete.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.EINVAL, "it is a link, and no regular file", str(path)) from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        cut = status.st_size > 0 and os.pread(descriptor, 1, status.st_size - 1) != b"\n"
        data = (("\n" if cut else "") + line + "\n").encode()
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)


def why_unreadable(error: Exception) -> str:
    """Return in one text what `read_bytes` and readers of its content raise."""
    return error.message if isinstance(error, EnvmgrError) else str(error)


def stays_in(path: Path, tree: Path) -> bool:
    """Return whether what `path` names, through links too, lies below `tree`; False for links that lead in a circle."""
    try:
        return path.resolve().is_relative_to(tree.resolve())
    # Before Python 3.13, `resolve` raises RuntimeError for a circle of links.
    except (OSError, RuntimeError):
        return False


def _open(path: Path, kind: Kind, tree: Path | None, folder: int | None = None) -> int:
    """Open by name, because NFS asks the server for the newest file of a name only then; in an open `folder`, by its
    last name there.
    """
    name = path if folder is None else path.name
    with suppress(OSError):  # what there is to say, the opening will
        _require_regular(path, os.stat(name, dir_fd=folder, follow_symlinks=tree is not None), kind)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_NOFOLLOW if tree is None else 0)
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        _require_regular(path, status, kind)
        if tree is not None and tree != ANYWHERE:
            # The kernel's name of the open file: links in `path` may lead elsewhere by now.
            _require_below(path, Path(f"/proc/self/fd/{descriptor}").readlink(), tree, kind)
        # The readers check again: the file may grow while it is read.
        _require_small(path, status.st_size, kind)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(path: Path, status: os.stat_result, kind: Kind) -> None:
    if not stat.S_ISREG(status.st_mode):
        is_one = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise InputError(
            "file-irregular",
            f"{kind.what} {one_line(path)} is {is_one}, and no regular file",
            hint="put the file itself there",
        )


def _require_below(path: Path, found: Path, tree: Path, kind: Kind) -> None:
    if not found.is_relative_to(tree.resolve()):
        raise InputError(
            "file-irregular",
            f"{kind.what} {one_line(path)} is a link out of {one_line(tree)}",
            hint="put the file itself there",
        )


def _require_small(path: Path, size: int, kind: Kind) -> None:
    if size > kind.most:
        raise InputError(
            "file-too-large",
            f"{kind.what} {one_line(path)} is larger than {kind.most} bytes",
            hint="such a file is not read: is it the right one?",
        )
