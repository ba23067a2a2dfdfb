"""Import the modules of the distributions that the arguments name, in one process; runs with an entry's own Python.

A word with `-` in front is a module that is left out. A module that needs another one first gets a second chance after
all others.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

# What sources put beside their package by mistake: no user imports these, and `setup` would begin a build.
_STRAY = frozenset(
    "bench benchmark benchmarks ci conftest doc docs example examples samples script scripts setup test testing tests".split()
)


def files_of(name: str) -> list[str] | None:
    """Return the files of a distribution, by its RECORD, relative to site-packages; None if there is none.

    A package of conda may hold a distribution of another name: then conda's own record has the files.
    """
    for found in metadata.distributions(name=name):
        if found.read_text("RECORD") is not None:
            return [str(path) for path in found.files or ()]
    for path in Path(sys.prefix, "conda-meta").glob(f"{name}-*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["name"] == name:
            return [file.partition("/site-packages/")[2] for file in record["files"]]
    return None


def modules_of(files: Iterable[str]) -> list[str]:
    """Return the modules that a user of these files imports, packages first.

    A folder without `__init__` is a namespace of several packages: its own modules count. Compiled and private modules
    come last, because many work only once their package is there.
    """
    paths = [*files]
    found = [*dict.fromkeys(_modules_in("", paths))]
    used = [name for name in found if name.partition(".")[0] not in _STRAY] or found
    return sorted(used, key=lambda name: (_rank(name, paths), name))


def _modules_in(folder: str, paths: Sequence[str]) -> Iterator[str]:
    """Yield the modules and packages in a folder (empty, or with a slash at its end)."""
    heads = {path[len(folder) :].split("/")[0]: "/" in path[len(folder) :] for path in paths if path.startswith(folder)}
    for head, is_folder in sorted(heads.items()):
        name = head if is_folder else inspect.getmodulename(head) or ""
        if not name.isidentifier() or name in ("__init__", "__main__", "__pycache__"):
            continue
        if is_folder and not _is_package(f"{folder}{head}/", paths):
            yield from _modules_in(f"{folder}{head}/", paths)
        else:
            yield f"{folder.replace('/', '.')}{name}"


def _is_package(folder: str, paths: Collection[str]) -> bool:
    return any(path.startswith(f"{folder}__init__.") and "/" not in path[len(folder) :] for path in paths)


def _rank(name: str, paths: Collection[str]) -> tuple[bool, bool]:
    path = name.replace(".", "/")
    return name.rpartition(".")[2].startswith("_"), not _is_package(f"{path}/", paths) and f"{path}.py" not in paths


def why_not(name: str) -> str:
    """Return why a module cannot be imported; empty if it can."""
    try:
        importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001 - a module may call `exit`
        last = traceback.extract_tb(error.__traceback__)[-1]
        return "".join(
            [f"{last.filename}, line {last.lineno}:\n", *traceback.format_exception_only(type(error), error)]
        )
    return ""


def main(words: Sequence[str]) -> int:
    """Import what the words ask for; return the exit status."""
    files = {word: files_of(word) for word in words if not word.startswith("-")}
    absent = [name for name, found in files.items() if found is None]
    for name in absent:
        sys.stderr.write(f"no distribution in the install is called {name}\n")
    modules = dict.fromkeys(module for found in files.values() for module in modules_of(found or ()))
    failed = [name for name in modules if f"-{name}" not in words and why_not(name)]
    reasons = {name: reason for name in failed if (reason := why_not(name))}
    for name, reason in reasons.items():
        sys.stderr.write(f"`import {name}` failed: {reason}")
    if reasons:
        names = ", ".join(reasons)
        sys.stderr.write(
            f'where users do not import it, or not so: `accept: {{not-imported: "{names}: why"}}` in the recipe\n'
        )
    return 1 if absent or reasons else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
