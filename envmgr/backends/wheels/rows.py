"""Files of requirements, as pip has them: each row is one requirement and the hashes that stand beside it. What is held is read; all else is
refused, never dropped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from envmgr.catalog.names import catalog_of
from envmgr.errors import InputError
from envmgr.system.untrusted_files import REQUIREMENTS, read_file_text
from envmgr.wheels.requirements import MOST_ROWS, HashedRow, checked
from envmgr.wording import one_line

_SHA256 = re.compile(r"sha256:([0-9a-fA-F]{64})")


def read_rows(path: Path) -> Iterator[HashedRow]:
    """Raises InputError `requirements-missing`, `requirement-invalid` with file and line, and as `read_file_text`."""
    if not os.path.lexists(path):
        raise InputError("requirements-missing", f"{path} does not exist", hint="it lies beside recipe.yaml")
    text = read_file_text(path, REQUIREMENTS, tree=catalog_of(path.parent))
    for count, (number, line) in enumerate(_joined(text, path), 1):
        if count > MOST_ROWS:
            raise _invalid(path, number, f"more than {MOST_ROWS} requirements", line)
        try:
            yield _read(line)
        except ValueError as error:
            raise _invalid(path, number, one_line(error), line) from None


def _joined(text: str, path: Path) -> Iterator[tuple[int, str]]:
    """Number of the first line, and the row: lines that end in a backslash with what follows them, without comments."""
    parts: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        row, comment, _ = _partition_comment(line)
        if comment and (parts or line.endswith("\\")):
            raise _invalid(
                path, number, "a comment within a row that goes on: pip and uv read that in different ways", line
            )
        parts.append(row.removesuffix("\\").strip())
        if row.endswith("\\"):
            continue
        if whole := " ".join(parts).strip():
            yield number - len(parts) + 1, whole
        parts = []
    if parts:
        raise _invalid(path, text.count("\n") + 1, "the last row ends in `\\`", parts[-1])


def _partition_comment(line: str) -> tuple[str, str, str]:
    """A `#` begins a comment at the start of a line, and after a space."""
    return ("", "#", line[1:]) if line.startswith("#") else line.partition(" #")


def _read(row: str) -> HashedRow:
    requirement, *options = row.split(" --")
    hashes = []
    for option in options:
        name, _, value = option.replace("=", " ", 1).strip().partition(" ")
        if name != "hash":
            raise ValueError(f"`--{option}`: options do not belong here; `--hash` alone does")
        found = _SHA256.fullmatch(value.strip())
        if found is None:
            raise ValueError(f"`--{option}`: a lock holds files to their sha256 (64 hex digits), and to no other hash")
        hashes.append(found[1].lower())
    return HashedRow(requirement=checked(requirement.strip()), sha256=tuple(hashes))


def _invalid(path: Path, number: int, reason: str, line: str) -> InputError:
    return InputError("requirement-invalid", f"{path}:{number}: {reason}", context=one_line(line.strip()))
