"""The Pythons of an install, and the mark that keeps pip and uv from writing into them.

Source: PEP 668, and packaging.python.org, "Externally Managed Environments".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from envmgr.system.files import atomic_write, pretty_json

MARK = "EXTERNALLY-MANAGED"
# The same for every install: it changes no tree digest but by being there.
MARK_TEXT = """\
[externally-managed]
Error=This Python belongs to a module. For your own packages see `module help`
"""


def standard_libraries(root: Path) -> list[Path]:
    """Return the standard libraries of an install's Pythons: `lib/python3.11`, `lib/python3.13t`, `lib/pypy3.10`.

    A virtual environment has none: its standard library is another install's, and pip may write there.
    """
    inside = root.resolve()
    folders = {program.parent.resolve() for program in root.glob("lib*/*/os.py")}  # lib64 may be a link to lib
    return [
        root / folder.relative_to(inside)
        for folder in sorted(folders)
        if folder.is_relative_to(inside) and (folder / "site.py").is_file()
    ]


def mark_pythons(root: Path) -> list[str]:
    """Write the mark into each standard library of an install that may still be written; return their paths in it.

    A mark that a package brings (conda-pypi) says what does not hold in a module: ours takes its place, and the
    package's own copy, which may be the same file, stays.

    Raises:
        EnvmgrError: `disk-full`, `not-writable`; OSError.
    """
    marks = [folder / MARK for folder in standard_libraries(root)]
    for mark in marks:
        atomic_write(mark, MARK_TEXT)
        for record in _owners(root, mark.parent):
            _add_file(record, str(mark.relative_to(root)))
    return [str(mark.relative_to(root)) for mark in marks]


def pip_writes(root: Path) -> bool:
    """Return whether the pip of an install's Python, if it has one, installs into it: there is no mark, or pip does not
    read it.

    It is False for an install with conda: users' own environments of it are no virtual environments, and need their
    pip. Source: pip's news, 23.0: "Implement PEP 668".
    """
    return not (root / "bin" / "conda").exists() and any(
        not (folder / MARK).is_file() or int(re.split(r"[-.]", info.name)[1]) < _READS_MARK
        for folder in standard_libraries(root)
        for info in (folder / "site-packages").glob("pip-[0-9]*.dist-info")
    )


_READS_MARK = 23  # the first major version of pip


def _owners(root: Path, folder: Path) -> Iterator[Path]:
    """Yield conda's records of the package that a standard library belongs to; none outside of a conda environment."""
    library = str((folder / "os.py").relative_to(root))
    for record in sorted((root / "conda-meta").glob("*.json")):
        data = record.read_bytes()
        # The bytes are searched first, so that few records of a large environment are parsed.
        if library.encode() in data and library in _files(json.loads(data)):
            yield record


def _add_file(record: Path, path: str) -> None:
    """Add a file to a record. `conda create --clone` copies what no record names, and the mark is not for a user's own
    environment.

    A clone links what records name from the packages, which do not have it. Source: conda/misc.py, `clone_env`,
    `untracked`.
    """
    data = json.loads(record.read_bytes())
    data["files"] = list(dict.fromkeys([*_files(data), path]))
    atomic_write(record, pretty_json(data))


def _files(record: dict[str, list[str]]) -> list[str]:
    return record.get("files") or []
