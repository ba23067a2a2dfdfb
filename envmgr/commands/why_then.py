"""The generation that was current at a time, by the flips; and the modules that a job loaded, by what Slurm kept."""

from __future__ import annotations

import calendar
import datetime
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from envmgr.catalog.names import MODULE_NAME, variable_name
from envmgr.errors import InputError
from envmgr.nodes.past_jobs import PastJob
from envmgr.people.script_loads import script_loads
from envmgr.wording import one_line

CLOCKS = 60.0
"""Seconds by which clocks of different hosts may differ: a flip that is nearer to a job may come before or after it."""

How = Literal["log", "script", "environment", "time"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module that a job loaded: `name` is an entry, `user/NAME`, or a name without a version. `digest` may be short, or
    empty; `how` says what tells it.
    """

    name: str
    generation: int | None
    digest: str
    how: How

    @property
    def is_own(self) -> bool:
        """Return whether it is a user's own environment."""
        return self.name.startswith(f"{MODULE_NAME}/")


def moment(text: str) -> float:
    """Return the seconds since the epoch of a past date or time of this host's clock, in ISO 8601. Raise InputError
    `bad-date`.
    """
    found = math.inf
    with suppress(ValueError, OverflowError, OSError):
        found = datetime.datetime.fromisoformat(text).timestamp()
    if found > time.time() + CLOCKS:
        hint = "a day as 2026-11-01, a time as 2026-11-01T14:30, or the number of a generation"
        raise InputError("bad-date", f"`{one_line(text, 60)}` is no past day and no generation", hint=hint)
    return found


def local(seconds: float) -> str:
    """Return a time as a person of this host reads it."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seconds))


def current_between(flips: Sequence[Mapping[str, Any]], first: float, last: float) -> tuple[int, ...]:
    """Return the generations that were current from `first` to `last`, oldest first, with clocks that may differ. It is
    empty before the first flip.
    """
    found: list[int] = []
    for row, after in zip(flips, [*flips[1:], None], strict=True):
        begins, ends = _epoch(row), float("inf") if after is None else _epoch(after)
        if begins <= last + CLOCKS and ends > first - CLOCKS and row["to"] not in found[-1:]:
            found.append(int(row["to"]))
    return tuple(dict.fromkeys(found))


def when_current(flips: Sequence[Mapping[str, Any]], number: int) -> str:
    """Return in words when a generation was current; empty if it never was."""
    spans = [
        f"{local(_epoch(row))} to {'now' if after is None else local(_epoch(after))}"
        for row, after in zip(flips, [*flips[1:], None], strict=True)
        if row["to"] == number
    ]
    return f"it was current from {' and from '.join(spans)}" if spans else ""


def _epoch(row: Mapping[str, Any]) -> float:
    try:
        return float(calendar.timegm(time.strptime(str(row["time"]), "%Y-%m-%dT%H:%M:%SZ")))
    except (ValueError, KeyError):
        return 0.0


def from_slurm(job: PastJob, generation: int | None, how: How) -> tuple[list[Loaded], list[str]]:
    """Return what the environment and the script that Slurm kept say, and the script's lines with modules that cannot be
    read; a load in the script comes last. `how` tells the generation.
    """
    found, unread = dict[str, Loaded](), []
    for name in filter(None, job.environment.get("LOADEDMODULES", "").split(":")):
        short = name.partition("/")[0]
        if digest := job.environment.get(f"ENVMGR_{variable_name(short)}_DIGEST", ""):
            found[short] = Loaded(name, generation, digest, "environment")
    for step, name in script_loads(job.script):
        short = name.partition("/")[0]
        if step == "purge":
            found.clear()
        elif step == "unload":
            found.pop(short, None)
        elif step == "unread":
            unread.append(name)
        elif short not in found or found[short].name != name:
            found[short] = Loaded(name, generation, "", how)
    return [*found.values()], unread
