"""pip's requirements.txt: what is asked for, with the sums beside it.

Source: pip's documentation, "Requirements File Format".
"""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from envmgr.exchange import Dropped, ExactPackages, Parsed, ReadFile
from envmgr.wheels.lockfile import LockedRow
from envmgr.wheels.requirements import HashedRow
from envmgr.wheels.requirements_file import rows_in

NAME = re.compile(r"[^/]*\.(txt|in)")
CONTENT = None
_PINNED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^\]]*\])?==(?P<version>[^*,;]+)")


def read(given: ReadFile) -> Parsed:
    """Return the rows, and exact wheels if each row has one version and one sum. Raise InputError
    `requirement-invalid`.
    """
    found = [*rows_in(given.text, given.path)]
    rows = [row for _, _, row in found if isinstance(row, HashedRow)]
    wheels, lacks = list[LockedRow](), ""
    for row in rows if any(row.sha256 for row in rows) else ():
        if (pinned := _PINNED.fullmatch(row.requirement)) and len(row.sha256) == 1:
            name = canonicalize_name(pinned["name"])
            wheels.append(LockedRow(name=name, version=pinned["version"], sha256=row.sha256[0]))
        else:
            lacks = f"{row.requirement} is not one version with one sum: the lock gets that of the index"
    return Parsed(
        left=tuple(given.left(line, row, number) for number, line, row in found if isinstance(row, str)),
        rows=tuple(row.requirement for row in rows),
        wheels=tuple(wheels),
        lacks=lacks,
    )


def write(exact: ExactPackages) -> tuple[str, list[Dropped]]:
    """Return a row for each wheel and source, with its sum. pip and uv take no other file then."""
    rows = [f"{each.name}=={each.version} --hash=sha256:{each.sha256}\n" for each in exact.wheels]
    return "".join(rows), exact.only_wheels()
