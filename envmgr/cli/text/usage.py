"""Loads of entries as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envmgr.cli.render import out, table
from envmgr.wording import and_more

if TYPE_CHECKING:
    from envmgr.commands.usage import EntryUse, UsageResult


def show_usage(result: UsageResult) -> None:
    header = ["entry", "loads", "by others", "in jobs", "last load", ""]
    table([_row(each) for each in result.entries], header=header)
    if not result.entries:
        out("no such entry")
    period = f"since {result.since}" if result.since else "of all that is recorded"
    known = (
        f"on {result.nodes}, all loads since {result.known} are known" if result.known else "no node's loads are known"
    )
    out(f"loads {period}; {known}")
    for each in result.unread:
        out(f"not read: {each.nodes}: {each.reason}")
    if result.off:
        out(f"loads are not recorded now: {result.off}")
    if result.damaged:
        out(f"left out: {result.damaged} lines that make no sense")
    if result.others:
        out(f"left out: {result.others} loads of entries or nodes that are not known here")


def _row(use: EntryUse) -> list[str]:
    more = [f"by {and_more(sorted(use.by), 3)}"] if use.by else []
    more += [f"users: {and_more(use.users, 10)}"] if use.users else []
    more += [f"deprecated {use.deprecated}"] if use.deprecated else []
    last = use.last or (f"none since {use.since}" if use.since else "not recorded")
    return [use.entry, str(use.own), str(sum(use.by.values())), str(use.jobs), last, "; ".join(more)]
