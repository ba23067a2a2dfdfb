"""wheels.lock, envmgr's own lock of wheels: that of an entry or of a user's environment, with one sum for each package."""

from __future__ import annotations

import re

from envmgr.exchange import Parsed, ReadFile
from envmgr.exchange.checks import row_for
from envmgr.wheels.lockfile import read_wheels

NAME = re.compile(r"[^/]*wheels\.lock")
CONTENT = re.compile(r"^# platform: \S+-manylinux_", re.MULTILINE)


def read(given: ReadFile) -> Parsed:
    """Return its packages. Raise InputError `lock-invalid`, `lock-unhashed`."""
    lock, header = read_wheels(given.text, given.path)
    below = "what the entry below the environment has, and folders of its user: `envmgr user export` names another way"
    return Parsed(
        left=(given.left("# envmgr:", below),) if "envmgr" in header else (),
        python=f"=={'.'.join(lock.python.split('.')[:2])}.*",
        rows=tuple(map(row_for, lock.rows)),
        wheels=lock.rows,
        indexes=lock.indexes,
    )
