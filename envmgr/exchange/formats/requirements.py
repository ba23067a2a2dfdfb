"""pip's requirements.txt: what is asked for, with the sums beside it.

Source: pip's documentation, "Requirements File Format".
"""

from __future__ import annotations

import re

from envmgr.exchange import Contents, Exact, Given, Left
from envmgr.wheels.requirements import HashedRow
from envmgr.wheels.requirements_file import rows_in

NAME = re.compile(r"[^/]*\.(txt|in)")
CONTENT = None


def read(given: Given) -> Contents:
    """Return the rows. Raise InputError `requirement-invalid`."""
    found = [*rows_in(given.text, given.path)]
    return Contents(
        left=tuple(given.left(line, row, number) for number, line, row in found if isinstance(row, str)),
        rows=tuple(row for _, _, row in found if isinstance(row, HashedRow)),
    )


def write(exact: Exact) -> tuple[str, list[Left]]:
    """Return a row for each wheel and source, with its sum. pip and uv take no other file then."""
    rows = [f"{each.name}=={each.version} --hash=sha256:{each.sha256}\n" for each in exact.wheels]
    return "".join(rows), exact.only_wheels()
