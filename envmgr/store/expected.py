"""The file of a tree of software by which users would first notice that it is not there: an audit expects it on nodes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from envmgr.system.models import FrozenModel

if TYPE_CHECKING:
    from envmgr.modules.spec import EnvOp
    from envmgr.store.tree import TreePath

NODE_CHECK = "libexec/node-check"
"""The program of an install, if it has one, that fails on a node that lacks what the install needs, and says what."""


class ExpectedFile(FrozenModel):
    """The file to look at. `program` is the first program that the module puts into PATH, `file` that, or any file where
    there is none.

    Both are relative to the software's folder; `file` is empty where nothing is known. `size` is that of `file`,
    behind links, in bytes; 0 unless it lies in the tree. `checked` means that it has a program that checks a node
    (`NODE_CHECK`).
    """

    program: str = ""
    file: str = ""
    size: int = 0
    checked: bool = False


def expected_of(root: str, rows: Sequence[TreePath], environment: Iterable[EnvOp], name: str) -> ExpectedFile:
    """Return what to expect of the tree at `root` with these rows. `name` is the entry's, without the version."""
    program = _first_program(root, rows, environment, name)
    file = program or next((row.path for row in rows if row.kind == "file"), "")
    return ExpectedFile(
        program=program, file=file, size=_size(rows, file), checked=any(row.path == NODE_CHECK for row in rows)
    )


def _size(rows: Iterable[TreePath], path: str) -> int:
    of = {row.path: row for row in rows}
    for _ in range(8):  # links
        if (row := of.get(path)) is None or row.kind != "link":
            return row.size if row else 0
        path = os.path.normpath(f"{path}/../{row.target}")
    return 0


def _first_program(root: str, rows: Iterable[TreePath], environment: Iterable[EnvOp], name: str) -> str:
    """Return the Python in the first folder of PATH that has a program, else the program with the entry's name, else
    the first by name.
    """
    folders: list[str] = []
    for op in environment:
        if op.name == "PATH" and op.kind in ("prepend", "append") and not op.at_load:
            inside = (part for part in op.value.split(op.separator) if f"{part}/".startswith(f"{root}/"))
            parts = [os.path.relpath(part, root) for part in inside]
            folders = [*parts, *folders] if op.kind == "prepend" else [*folders, *parts]
    kinds = {row.path: row.kind for row in rows if row.kind == "link" or (row.kind == "file" and row.mode & 0o100)}
    for folder in folders:
        begin = "" if folder == "." else f"{folder}/"
        # A link may lead to anything.
        plain = sorted(p for p, kind in kinds.items() if kind == "file" and p.rpartition("/")[0] == begin[:-1])
        for path in (begin + "python", begin + name, begin + name.lower(), *plain):
            if path in kinds:
                return path
    return ""
