"""Files of requirements, as pip and uv have them: `requirements.txt`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from envmgr.errors import InputError
from envmgr.system.untrusted_files import REQUIREMENTS, read_file_text
from envmgr.wheels.requirements import MOST_FAULTS, MOST_ROWS, HashedRow, checked
from envmgr.wording import one_line, shortened

_HASH = re.compile(r"sha256:([0-9a-fA-F]{64})")


def read_rows(path: Path, tree: Path, *, hint: str = "") -> Iterator[HashedRow]:
    """Yield each requirement of a file, as pip has them, with the hashes beside it. All else is refused, never dropped.

    `tree` is the folder whose owner may write it; `hint` says where a missing file should be.

    Raises:
        InputError: `requirements-missing`, `requirement-invalid` with file and line, and as `read_file_text`.
    """
    if not os.path.lexists(path):
        raise InputError("requirements-missing", f"{path} does not exist", hint=hint)
    faults: list[InputError] = []
    for number, line, row in rows_in(read_file_text(path, REQUIREMENTS, tree=tree), path):
        if isinstance(row, HashedRow):
            yield row
        else:
            faults.append(_invalid_row(path, number, row, line))
    if faults:
        first, *others = faults
        more = shortened([other.message for other in others], MOST_FAULTS)
        raise InputError(first.reference, first.message, context=(*first.context, *more))


def rows_in(text: str, path: Path) -> Iterator[tuple[int, str, HashedRow | str]]:
    """Yield each row with the number of its first line: a requirement, or why it is refused. Raise InputError
    `requirement-invalid` for too many, and for a row that nobody can tell the end of.
    """
    for count, (number, line) in enumerate(_joined_lines(text, path), 1):
        if count > MOST_ROWS:
            raise _invalid_row(path, number, f"more than {MOST_ROWS} requirements", line)
        try:
            yield number, line, _read_row(line)
        except ValueError as error:
            yield number, line, one_line(error)


def _joined_lines(text: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yield rows without comments, each with the number of its first line. A line that ends in a backslash goes on."""
    parts: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        # A `#` begins a comment at the start of a line, and after a space.
        row, comment, _ = ("", "#", line[1:]) if line.startswith("#") else line.partition(" #")
        if comment and (parts or line.endswith("\\")):
            reason = "a comment within a row that goes on: pip and uv read that in different ways"
            raise _invalid_row(path, number, reason, line)
        parts.append(row.removesuffix("\\").strip())
        if row.endswith("\\"):
            continue
        if whole := " ".join(parts).strip():
            yield number - len(parts) + 1, whole
        parts = []
    if parts:
        raise _invalid_row(path, text.count("\n") + 1, "the last row ends in `\\`", parts[-1])


def _read_row(row: str) -> HashedRow:
    if "@" in row:  # its hash is part of the requirement
        return HashedRow(requirement=checked(row))
    requirement, *options = row.split(" --")
    hashes = []
    for option in options:
        name, _, value = option.replace("=", " ", 1).strip().partition(" ")
        if name != "hash":
            raise ValueError(f"`--{option}`: `--hash` is the only option that is allowed here")
        found = _HASH.fullmatch(value.strip())
        if found is None:
            raise ValueError(f"`--{option}`: a lock holds files to their sha256 (64 hex digits), and to no other hash")
        hashes.append(found[1].lower())
    return HashedRow(requirement=checked(requirement.strip()), sha256=tuple(hashes))


def _invalid_row(path: Path, number: int, reason: str, line: str) -> InputError:
    return InputError("requirement-invalid", f"{path}:{number}: {reason}", context=one_line(line.strip()))
