"""The flip: one rename makes a generation current; the history has a line for each."""

from __future__ import annotations

import getpass
import json
import socket
import time
from contextlib import suppress
from typing import Any

from envmgr.errors import EnvmgrError
from envmgr.publish.record import complete_numbers, current_number
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.files import flip_symlink, sync_folder
from envmgr.system.formats import require_format
from envmgr.system.reading import HISTORY, append_line, read_bytes

FORMAT = 1
"""The number of the format of the history's lines, which have it only where it is another (`schema`)."""


def flip(
    prefix: Prefix, number: int, before: int | None, reason: str, reporter: Reporter, *, record: str | None = None
) -> None:
    """Make generation `number` current and write it down. `before` is what was current; under `publishing` only.

    `record` is the sha256 of the record of a generation that is new.
    """
    flip_symlink(prefix.current, f"generations/{number:04d}")
    # From here on the flip is done: nothing may be told as its failure.
    try:
        sync_folder(prefix.current.parent)
    except OSError as error:
        reporter.say(
            f"warning: generation {number} is current; that it stays so after a crash of the host could not be made sure: {error.strerror}"
        )
    line: dict[str, object] = {
        "time": utc_now(),
        "user": getpass.getuser(),
        "host": socket.gethostname(),
        "from": before,
        "to": number,
        "reason": reason,
        **({"record": record} if record else {}),
    }
    try:
        append_line(prefix.history, json.dumps(line))  # the last one may be cut, by a full disk or a kill
    except (OSError, EnvmgrError) as error:
        why = error.message if isinstance(error, EnvmgrError) else error.strerror
        reporter.say(f"warning: generation {number} is current, but {prefix.history} could not be written: {why}")


def known_current(prefix: Prefix) -> int | None:
    """Like `current_number`, but None where `current` is damaged."""
    try:
        return current_number(prefix)
    except EnvmgrError:
        return None


def last_current(prefix: Prefix) -> int | None:
    """What `current` names, or named before it was damaged; None before the first publish."""
    number = known_current(prefix)
    if number is None:
        number = next((int(f["to"]) for f in reversed(flips(prefix))), None)
    return number if number is not None else max(complete_numbers(prefix), default=None)


def told_records(prefix: Prefix) -> dict[int, str]:
    """Generation -> sha256 of its record, as its publish wrote it down; later lines cannot change that."""
    found: dict[int, str] = {}
    for row in flips(prefix):
        if isinstance(row.get("record"), str):
            found.setdefault(row["to"], row["record"])
    return found


def flips(prefix: Prefix) -> list[dict[str, Any]]:
    """Every publish and rollback, oldest first: `{time, user, host, from, to, reason}`, of a publish with the sha256 of its record
    (`record`). Lines that were cut are left out.

    Raises:
        InputError: `file-irregular`, `file-too-large`; EnvmgrError: `format-unknown` for a line that a later envmgr wrote.
    """
    found = []
    with suppress(FileNotFoundError):
        for line in read_bytes(prefix.history, HISTORY).decode(errors="replace").splitlines():
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict) and isinstance(row.get("to"), int):
                    require_format(row.get("schema", FORMAT), FORMAT, prefix.history)
                    found.append(row)
    return found


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
