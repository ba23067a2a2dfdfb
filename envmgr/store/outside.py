"""Trees outside of the store, which somebody else made: what was seen of one, and how it differs now.

An install that leads to such a tree has the file `outside.json`: every path of the tree, as it was when the install was
made. The manifest has that file's sha256, as of every other.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envmgr.errors import EnvmgrError
from envmgr.modules.spec import EnvOp, Outside
from envmgr.store.expected import expected_of
from envmgr.store.tree import TreePath, look_at_tree
from envmgr.system.files import sha256_bytes
from envmgr.system.untrusted_files import MANIFEST, read_bytes, why_unreadable
from envmgr.wording import escaped, shortened

SEEN = "outside.json"
"""The file of an install with the rows of the tree that it leads to."""

How = Literal["full", "times"]
_WHAT = {"full": "sha256", "times": "time"}


@dataclass(frozen=True, slots=True)
class OutsideTree:
    """A tree that was looked at: its rows, sorted, and path -> why something of it could not be read.

    In a row of `times` the time of change, in nanoseconds, stands in the place of the sha256. The first row is the
    folder itself.
    """

    rows: tuple[TreePath, ...]
    unread: Mapping[str, str]

    @property
    def files(self) -> int:
        return sum(row.kind == "file" for row in self.rows)

    @property
    def size(self) -> int:
        return sum(row.size for row in self.rows)


def look_outside(path: Path, how: How, ignore: Collection[str], *, workers: int = 4) -> OutsideTree:
    """Look at a tree. What is not there has no rows. A link at `path` is followed; where it leads to is in the row."""
    try:
        status, real = path.stat(), os.path.realpath(path)
    except OSError as error:
        return OutsideTree((), {"": error.strerror or str(error)})
    if not stat.S_ISDIR(status.st_mode):
        return OutsideTree((), {"": "it is no folder"})
    look = look_at_tree(Path(real), None, workers=workers, times=how == "times", skip=ignore)
    top = TreePath("", "dir", stat.S_IMODE(status.st_mode), 0, "", "" if real == str(path) else real)
    return OutsideTree((top, *look.paths), look.unread)


def require_seen(path: Path, seen: OutsideTree) -> None:
    """Raise EnvmgrError `tree-missing` or `tree-unreadable` unless all of it was seen."""
    if not seen.rows:
        raise EnvmgrError(
            "tree-missing",
            f"{path} cannot be used: {seen.unread['']}",
            hint="is it mounted here, and is `input.path` right?",
        )
    if seen.unread:
        lines = [f"{escaped(name) or '.'}: {why}" for name, why in sorted(seen.unread.items())]
        raise EnvmgrError(
            "tree-unreadable",
            f"{len(lines)} of the paths in {path} cannot be read",
            context=shortened(lines, 10),
            hint="users cannot read them either, where only the owner can. If none of them matters: `input.ignore` "
            "names what is left out, and `manifest: times` opens no file",
        )


def shape_of(rows: Iterable[TreePath], how: How) -> str:
    """Return the sha256 of what `find` on a node lists of a tree: kinds, sizes, links, and with `times` whole seconds.

    `envmgr/audit/checks/outside.look.sh` makes the same text. Nothing is opened for it.
    """
    lines = []
    for row in rows:
        text = {"file": f"{row.path}\tf\t{row.size}", "dir": f"{row.path}\td", "link": f"{row.path}\tl\t{row.target}"}
        if row.path and row.kind in text:
            time = f"\t{int(row.sha256) // 10**9}" if how == "times" and row.kind == "file" else ""
            lines.append(os.fsencode(f"{text[row.kind]}{time}\0"))
    return sha256_bytes(b"".join(sorted(lines)))


def describe_outside(
    roots: tuple[str, ...],
    how: How,
    ignore: tuple[str, ...],
    seen: OutsideTree,
    environment: Iterable[EnvOp],
    name: str,
) -> Outside:
    """Return what modules and the audit know of a tree, the first of `roots`. `name` is the entry's."""
    path = str(Path(roots[0]))
    of = expected_of(path, seen.rows, environment, name)
    shape = shape_of(seen.rows, how)
    return Outside(path=path, roots=roots, how=how, ignore=ignore, shape=shape, program=of.program, file=of.file)


def seen_text(seen: OutsideTree) -> str:
    """Return the text of `outside.json`, a row in a line."""
    rows = ",\n".join(json.dumps(row.row()) for row in seen.rows)
    return '{"schema": 1, "paths": [\n' + rows + "\n]}\n"


def changes_outside(install: Path, outside: Outside) -> tuple[str, ...]:
    """Return how a tree differs from what the install at `install` recorded, as readable lines, sorted by path.

    Raises EnvmgrError `manifest-damaged` if the record cannot be read.
    """
    file = install / SEEN
    try:
        rows = {row[0]: row for row in json.loads(read_bytes(file, MANIFEST))["paths"]}
    except (OSError, ValueError, KeyError, TypeError, IndexError, EnvmgrError) as error:
        raise EnvmgrError("manifest-damaged", f"{file} cannot be read", context=why_unreadable(error)) from None
    now = look_outside(Path(outside.path), outside.how, outside.ignore)
    if not now.rows:
        return (f"{outside.path}: {now.unread['']}",)
    found = {row.path: row.row() for row in now.rows}
    lines = []
    for path in sorted({*rows, *found, *now.unread}):
        old, new, name = rows.get(path), found.get(path), escaped(path) or "."
        if path in now.unread:
            lines.append(f"{name}: cannot be read: {now.unread[path]}")
        elif old is None or new is None:
            lines.append(f"{name}: {'new' if old is None else 'missing'}")
        elif old != new:
            names = ("kind", "mode", "size", "target" if new[1] != "file" else _WHAT[outside.how])
            what = [name for name, a, b in zip(names, old[1:], new[1:], strict=True) if a != b]
            lines.append(f"{name}: {', '.join(what)} changed")
    return tuple(lines)
