"""A folder as data: every path with type, mode, size and sha256, and one digest over them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from envmgr.errors import EnvmgrError
from envmgr.system.files import canonical_json, sha256_bytes, sha256_regular
from envmgr.system.safe_paths import change_tree
from envmgr.wording import escaped

_BATCH = 64  # paths that one thread takes at once: a task for each would cost more than a small file


class TreePath(NamedTuple):
    """One path of a tree, relative to its root. `kind` is `file`, `dir` or `link`; `mode` is permission bits.

    `size` is bytes (0 unless a file); `sha256` is of a file's content, `target` a link's text; else empty.
    """

    path: str
    kind: str
    mode: int
    size: int = 0
    sha256: str = ""
    target: str = ""

    def row(self) -> list[str | int]:
        """Return the canonical form, which the digest covers and the manifest stores."""
        return [self.path, self.kind, f"{self.mode:04o}", self.size, self.sha256 or self.target]


@dataclass(slots=True)
class TreeLook:
    """A tree as a verification sees it: its paths, sorted, special files among them by their kind (`pipe`, `socket`,
    `device`).

    `owners` is path -> user number, of paths that do not belong to `owner`; `unread` is path -> why its content is
    unknown.
    """

    paths: list[TreePath]
    owners: dict[str, int]
    unread: dict[str, str]


def scan_tree(root: Path, *, workers: int = 4) -> list[TreePath]:
    """Return every path under `root`, sorted by path, without the root itself.

    Raises EnvmgrError `install-special-file` for a socket, a device or a pipe.
    """
    # scandir has the file system's own order, and two equal trees must have one manifest.
    found = sorted(_walk(str(root), "", None), key=itemgetter(0))
    for relative, status in found:
        if _kind(status.st_mode) not in _KEPT:
            raise EnvmgrError(
                "install-special-file",
                f"{escaped(f'{root}/{relative}')} is neither file, folder nor link",
                context="no manifest can hold a pipe, a socket or a device",
                hint="remove it at the end of the build, or have the software make it when it runs",
            )
    return _in_batches(lambda relative, status: _look_at(str(root), relative, status), found, workers)


def look_at_tree(
    root: Path, owner: int | None, *, workers: int = 4, times: bool = False, skip: Collection[str] = ()
) -> TreeLook:
    """Look at every path under `root`, whatever it is, and its owner, if one is given. Only regular files are
    opened: a pipe would never end.

    With `times`, no file is opened: its time of change stands in the place of its sha256. What has a name of `skip` is
    left out, with all below it.
    """
    look = TreeLook([], {}, {})
    found = sorted(_walk(str(root), "", look.unread, skip), key=itemgetter(0))

    def one(relative: str, status: os.stat_result) -> TreePath:
        if owner is not None and status.st_uid != owner:
            look.owners[relative] = status.st_uid
        if times and stat.S_ISREG(status.st_mode):
            return TreePath(relative, "file", stat.S_IMODE(status.st_mode), status.st_size, str(status.st_mtime_ns))
        try:
            return _look_at(str(root), relative, status)
        except OSError as error:
            look.unread[relative] = error.strerror or str(error)
            return TreePath(relative, _kind(status.st_mode), stat.S_IMODE(status.st_mode), status.st_size)

    look.paths = _in_batches(one, found, workers)
    return look


_KEPT = ("file", "dir", "link")
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "dir",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "device")


def _look_at(root: str, relative: str, status: os.stat_result) -> TreePath:
    kind = _kind(status.st_mode)
    full = f"{root}/{relative}"
    if kind == "link":
        # Linux ignores the mode of a link: a fixed one keeps digests equal.
        return TreePath(relative, "link", 0o777, 0, "", os.readlink(full))  # noqa: PTH115 - Path would drop `./` and `//`
    mode = stat.S_IMODE(status.st_mode)
    if kind != "file":
        return TreePath(relative, kind, mode)
    return TreePath(relative, "file", mode, status.st_size, sha256_regular(full, status.st_size))


def _in_batches(
    one: Callable[[str, os.stat_result], TreePath], found: Sequence[tuple[str, os.stat_result]], workers: int
) -> list[TreePath]:
    batches = [found[at : at + _BATCH] for at in range(0, len(found), _BATCH)]
    if len(batches) < 2 or workers < 2:
        return [one(*item) for item in found]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:  # hashing leaves the interpreter lock
        return [path for batch in pool.map(lambda batch: [one(*item) for item in batch], batches) for path in batch]


def tree_digest(paths: Iterable[TreePath]) -> str:
    """Return the sha256 of the sorted rows, without times and owners, which differ between two equal builds."""
    rows = sorted((p.row() for p in paths), key=lambda row: str(row[0]))
    return sha256_bytes(canonical_json({"schema": 1, "paths": rows}))


def make_read_only(root: Path, *, group: int | None = None, mask: int = 0o022) -> None:
    """Normalise modes: folders and executables 0555, other files 0444, less the bits of `mask`; set the group if given.

    The modes are the same for all builds, independent of the umask and the package: part of "same lock, same bytes".
    """

    def mode(status: os.stat_result) -> int:
        return (0o555 if stat.S_ISDIR(status.st_mode) or status.st_mode & 0o111 else 0o444) & ~mask

    change_tree(root, group=group, mode=mode)


def _walk(
    root: str, prefix: str, unread: dict[str, str] | None, skip: Collection[str] = ()
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the paths below `root` with their status, without those that have a name of `skip`.

    `unread` gets the folders that cannot be listed, and the paths that have no status; what vanished meanwhile is not
    there. With None, the error is raised.
    """
    try:
        with os.scandir(f"{root}/{prefix}" if prefix else root) as listing:
            entries = [entry for entry in listing if entry.name not in skip]  # servers also fail while they list
    except OSError as error:
        if unread is None:
            raise
        unread[prefix] = error.strerror or str(error)
        return
    for entry in entries:
        relative = f"{prefix}/{entry.name}" if prefix else entry.name
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            if unread is None:
                raise
            if not isinstance(error, FileNotFoundError):
                unread[relative] = error.strerror or str(error)
            continue
        yield relative, status
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(root, relative, unread, skip)
