"""What an audit has to expect of software on a node: the file by which users would first notice that it is not there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from envmgr.modules.spec import EnvOp
from envmgr.store.manifest import NODE_CHECK
from envmgr.store.tree import TreePath
from envmgr.system.models import FrozenModel


class Expected(FrozenModel):
    """The file to look at. `program` is the first program that the module puts into PATH, `file` that, or any file where
    there is none.

    Both are relative to the software's folder; `file` is empty where nothing is known. `checked` means that it has a
    program that checks a node (`NODE_CHECK`).
    """

    program: str = ""
    file: str = ""
    checked: bool = False


def expected_of(root: str, rows: Sequence[TreePath], environment: Iterable[EnvOp], name: str) -> Expected:
    """Return what to expect of the tree at `root` with these rows. `name` is the entry's, without the version."""
    program = _first_program(root, rows, environment, name)
    file = program or next((row.path for row in rows if row.kind == "file"), "")
    return Expected(program=program, file=file, checked=any(row.path == NODE_CHECK for row in rows))


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
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        if row.kind == "link" or (row.kind == "file" and row.mode & 0o100):
            folder, _, program = row.path.rpartition("/")
            found.setdefault(folder or ".", {})[program] = row.kind
    for folder in folders:
        there = found.get(folder, {})
        plain = sorted(each for each, kind in there.items() if kind == "file")  # a link may lead to anything
        for each in ("python", name, name.lower(), *plain):
            if each in there:
                return each if folder == "." else f"{folder}/{each}"
    return ""
