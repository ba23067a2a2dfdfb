"""A folder as data: every path with type, mode, size and sha256, and one digest over them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.system.files import canonical_json, sha256_bytes, sha256_file

_BATCH = 64  # paths that one thread takes at once: a task for each would cost more than a small file


@dataclass(frozen=True, slots=True)
class TreePath:
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
        """The canonical form: what the digest covers and the manifest stores."""
        return [self.path, self.kind, f"{self.mode:04o}", self.size, self.sha256 or self.target]


def scan_tree(root: Path, *, hashed: bool = True, workers: int = 4) -> list[TreePath]:
    """Every path under `root`, sorted by path; the root itself is left out.

    With `hashed=False` files carry no sha256.

    Raises EnvmgrError `install-special-file` for a socket, a device or a pipe.
    """
    found = sorted(_walk(root, ""), key=lambda item: item[0])

    def one(item: tuple[str, os.stat_result]) -> TreePath:
        relative, status = item
        full = f"{root}/{relative}"
        if stat.S_ISLNK(status.st_mode):
            return TreePath(relative, "link", 0o777, target=os.readlink(full))  # noqa: PTH115 - Path would drop `./` and `//`
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            return TreePath(relative, "dir", mode)
        if not stat.S_ISREG(status.st_mode):
            raise EnvmgrError(
                "install-special-file", f"{shown(full)} is neither file, folder nor link",
                context="no manifest can hold a pipe, a socket or a device",
                hint="remove it at the end of the build, or have the software make it when it runs",
            )  # fmt: skip
        return TreePath(relative, "file", mode, status.st_size, sha256_file(full) if hashed else "")

    batches = [found[at : at + _BATCH] for at in range(0, len(found), _BATCH)]
    with ThreadPoolExecutor(workers) as pool:  # hashing leaves the interpreter lock
        return [path for batch in pool.map(lambda batch: [one(item) for item in batch], batches) for path in batch]


def tree_digest(paths: Iterable[TreePath]) -> str:
    """sha256 over the sorted rows; times and owners are left out (they differ between two equal builds)."""
    rows = sorted((p.row() for p in paths), key=lambda row: str(row[0]))
    return sha256_bytes(canonical_json({"schema": 1, "paths": rows}))


def shown(path: str) -> str:
    """A path for a message: line breaks, control characters and bytes that are not UTF-8 are written as escapes."""
    return path if path.isprintable() else repr(path)[1:-1]


def make_read_only(root: Path, *, group: int | None = None, mask: int = 0o022) -> None:
    """Normalise modes: folders and executables 0555, other files 0444, less the bits of `mask`; set the group if given.

    One mode for all builds, whatever the umask or the package said: part of "same lock, same bytes".
    """
    for relative, status in _walk(root, ""):
        full = root / relative
        if stat.S_ISLNK(status.st_mode):
            if group is not None:
                os.lchown(full, -1, group)
            continue
        executable = stat.S_ISDIR(status.st_mode) or status.st_mode & 0o111
        if group is not None:
            os.chown(full, -1, group)
        full.chmod((0o555 if executable else 0o444) & ~mask)
    if group is not None:
        os.chown(root, -1, group)
    root.chmod(0o555 & ~mask)


def _walk(root: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(root / prefix) as entries:
        for entry in entries:
            relative = f"{prefix}/{entry.name}" if prefix else entry.name
            status = entry.stat(follow_symlinks=False)
            yield relative, status
            if stat.S_ISDIR(status.st_mode):
                yield from _walk(root, relative)
