"""`envmgr usage`: who loads which entry, from the logs of nodes, and since when that is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import ClassVar

from envmgr.commands import Context, choose_published
from envmgr.commands.usage_read import Reading, Unread, nodes_with_users, read_logs, save_reading, why_off
from envmgr.errors import InputError
from envmgr.nodes.sets import fold
from envmgr.publish.records import read_specs
from envmgr.report import Result
from envmgr.store.usage import DAYS, Usage, loads_since, read_usage
from envmgr.system.usernames import user_name


@dataclass(frozen=True, slots=True)
class EntryUse:
    """The loads of an entry since the asked day: `own` by users, `by` entries that depend on it, `jobs` of both.

    `last` is the day of the last load that is known (a month, if it is long ago); empty without one. `since` is the day
    from which it was seen to be published, `deprecated` what its module says. `users` are known only where site and log
    keep uids.
    """

    entry: str
    own: int
    by: Mapping[str, int]
    jobs: int
    last: str
    since: str
    deprecated: str
    users: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UsageResult(Result):
    """The result of `usage`. `since` is the asked day, or empty for all that is recorded; `known` is the time from which
    all loads on all `nodes` are counted, empty if there is none. `off` is why loads are not recorded now. `damaged`
    lines said something else, and `others` were loads of entries or nodes that nobody knows.
    """

    schema: ClassVar[str] = "envmgr.usage/1"
    entries: tuple[EntryUse, ...]
    since: str
    known: str
    nodes: str
    unread: tuple[Unread, ...]
    off: str
    damaged: int
    others: int

    @property
    def exit_code(self) -> int:
        """3 if not all nodes were read."""
        return 3 if self.unread else 0


def days_of(text: str) -> int:
    """Return the days of `180d`. Raises InputError `usage-days`."""
    match = re.fullmatch(r"([1-9][0-9]{0,2})d?", text)
    if match is None or int(match[1]) > DAYS:
        raise InputError(
            "usage-days", f"`{text}` is no number of days", context=f"1d to {DAYS}d", hint="such as `--unused-for 180d`"
        )
    return int(match[1])


def show_use(
    ctx: Context,
    names: Sequence[str] = (),
    *,
    since: str | None = None,
    unused_for: str | None = None,
    deprecated: bool = False,
    recorded: bool = False,
    settle: Callable[[], None] = lambda: None,
) -> UsageResult:
    """Read the logs, unless only what is `recorded` is asked for, and return the loads of published entries.

    `since` is a day. `unused_for` leaves those that nobody loaded for so long, `deprecated` those that are. `settle` is
    called before anything is written.

    Raises:
        InputError: `usage-days`, `usage-date`, `not-published`.
        EnvmgrError: `usage-damaged`.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    day = _day(since) if since else None
    if unused_for:
        day = now.date() - timedelta(days=days_of(unused_for))
    current, chosen = choose_published(ctx, names)
    if recorded:
        reading = Reading(read_usage(ctx.prefix), nodes_with_users(ctx), {}, why_off(ctx))
    else:
        reading = read_logs(ctx, now)
        save_reading(ctx, reading, settle)
    specs = read_specs(ctx.prefix, current.number)
    rows = []
    for name in chosen:
        row = _row(reading.usage, name, day, specs[name]["spec"].get("deprecated"))
        if not (unused_for and row.own + sum(row.by.values())) and not (deprecated and not row.deprecated):
            rows.append(row)
    known = reading.known
    return UsageResult(
        tuple(rows),
        day.isoformat() if day else "",
        known.isoformat() if known else "",
        fold(reading.nodes),
        reading.unread,
        reading.off,
        reading.damaged,
        reading.others,
    )


def _row(usage: Usage, name: str, day: date | None, deprecated: Mapping[str, str] | None) -> EntryUse:
    kept = usage.entries.get(name)
    loads = loads_since(kept, day or date.min) if kept else None
    return EntryUse(
        name,
        loads.own if loads else 0,
        loads.by if loads else {},
        loads.jobs if loads else 0,
        max(kept.days, default="") if kept else "",
        kept.since.isoformat() if kept else "",
        deprecated=f"until {deprecated['date']}: {deprecated['message']}" if deprecated else "",
        users=tuple(map(user_name, loads.uids)) if loads else (),
    )


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError("usage-date", f"`{text}` is no day", hint="such as `--since 2026-11-28`") from None
