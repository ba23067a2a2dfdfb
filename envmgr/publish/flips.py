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
from envmgr.system.files import flip_symlink
from envmgr.system.reading import HISTORY, append_line, read_bytes


def flip(prefix: Prefix, number: int, before: int | None, reason: str, reporter: Reporter) -> None:
    """Make generation `number` current and write it down. `before` is what was current; under `publishing` only."""
    flip_symlink(prefix.current, f"generations/{number:04d}")
    line = {
        "time": utc_now(),
        "user": getpass.getuser(),
        "host": socket.gethostname(),
        "from": before,
        "to": number,
        "reason": reason,
    }
    try:
        append_line(prefix.history, json.dumps(line))  # the last one may be cut, by a full disk or a kill
    except OSError as error:  # the flip is done: it must not be told as a failure
        reporter.say(
            f"warning: generation {number} is current, but {prefix.history} could not be written: {error.strerror}"
        )


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


def flips(prefix: Prefix) -> list[dict[str, Any]]:
    """Every publish and rollback, oldest first: `{time, user, host, from, to, reason}`. Lines that were cut are left out.

    Raises:
        InputError: `file-irregular`, `file-too-large`.
    """
    found = []
    with suppress(FileNotFoundError):
        for line in read_bytes(prefix.history, HISTORY).decode(errors="replace").splitlines():
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict) and isinstance(row.get("to"), int):
                    found.append(row)
    return found


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
