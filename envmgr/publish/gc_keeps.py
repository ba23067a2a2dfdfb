"""The generations and installs that `gc` must keep because they are, or may be, in use: judged from the nodes' answers.
Pure.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envmgr.wording import shortened

NEVER = float("inf")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class InUse:
    """The uses that were found. `named`: path below the prefix -> who uses it.

    `since`: a time, seconds since the epoch, and who may use any generation that was current then or later. `unknown`:
    why anything may be in use.
    """

    named: Mapping[str, Sequence[str]]
    since: Sequence[tuple[float, str]] = ()
    unknown: Sequence[str] = ()


def left_times(
    rows: Sequence[Mapping[str, Any]], created: Mapping[int, float], current: int | None
) -> dict[int, float]:
    """Map each generation to when it was last left, seconds since the epoch, never too early; `NEVER` for one that is
    current, or was not left as far as the flips `rows` show.

    Rows may be missing: a generation that one made current was left at the next one at the latest. `created` has all
    generations; one that no flip names was left, if it ever was current, by the first flip after it.
    """
    times = [_seconds(row.get("time")) for row in rows]
    left: dict[int, float] = {}
    told: int | None = None
    for row, time in zip(rows, times, strict=True):
        # If a row is missing, `from` and the row before disagree: both generations were left here at the latest.
        for number in (told, row.get("from")):
            if isinstance(number, int) and number != row["to"]:
                left[number] = max(time, left.get(number, 0.0))
        told = row["to"]
    if told is not None:
        left[told] = NEVER  # current, or left by a flip that is not recorded
    if current is not None:
        left[current] = NEVER
    for number, made in created.items():
        if number not in left:
            left[number] = min((time for time in times if time >= made), default=NEVER)
    return left


def generations_in_use(numbers: Iterable[int], left: Mapping[int, float], found: InUse) -> dict[int, str]:
    """Return those of `numbers` that are, or may be, in use, with the reason."""
    if found.unknown:
        return dict.fromkeys(numbers, in_few(found.unknown))
    kept = {}
    for number in numbers:
        who = list(found.named.get(f"generations/{number:04d}", ()))
        who += [f"{each}, which may use what was current then" for began, each in found.since if left[number] >= began]
        if who:
            kept[number] = in_few(who)
    return kept


def installs_in_use(paths: Collection[str], needs: Callable[[str], Iterable[str]], found: InUse) -> dict[str, str]:
    """Return the installs that are, or may be, in use, with the reason, including those that they need (`needs`)."""
    if found.unknown:
        return dict.fromkeys(paths, in_few(found.unknown))
    reasons = {path: in_few(found.named[path]) for path in paths if path in found.named}
    waiting = list(reasons)
    while waiting:
        path = waiting.pop()
        for need in needs(path):
            if need in paths and need not in reasons:
                # Each step repeats the reason of the step before: without a limit, a long chain makes a long text.
                reasons[need] = f"{path} stands on it, which is in use: {reasons[path]}"[:300]
                waiting.append(need)
    return reasons


def in_few(reasons: Sequence[str]) -> str:
    """Return the first reasons, and the number of further ones."""
    return "; ".join(shortened(reasons, _SHOWN))


def _seconds(time: object) -> float:
    """Return the time of a flip in seconds. A time that cannot be read is no reason to take anything away."""
    try:
        return datetime.datetime.fromisoformat(str(time)).timestamp()
    except (ValueError, OverflowError):
        return NEVER
