"""Loads of entries as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envmgr.cli.render import out, table
from envmgr.wording import and_more, counted

if TYPE_CHECKING:
    from envmgr.commands.usage import EntryUse, UsageResult


def show_usage(result: UsageResult) -> None:
    table([_row(each) for each in result.entries], header=["entry", "loads", "by others", "in jobs", "last load", ""])
    loads = counted(sum(each.own + sum(each.by.values()) for each in result.entries), "loads")
    out(f"{loads} from {result.first} to {result.last}" if result.first else "no load is in this text")
    if result.others:
        out(f"left out: {counted(result.others, 'lines')} of entries that are not published, or without sense")
    if not result.recorded:
        out("loads are not recorded now: site.yaml has no `usage: true`")


def _row(use: EntryUse) -> list[str]:
    more = [f"by {and_more(sorted(use.by), 3)}"] if use.by else []
    more += [f"deprecated {use.deprecated}"] if use.deprecated else []
    return [use.entry, str(use.own), str(sum(use.by.values())), str(use.jobs), use.last, "; ".join(more)]
