"""`envmgr history`: generations, and how they became current."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from envmgr.errors import EnvmgrError
from envmgr.publish.candidates import last_withdrawn
from envmgr.publish.flips import flips, known_current, once_current
from envmgr.publish.plan import marked
from envmgr.publish.records import candidate_numbers, complete_numbers, read_records
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context
from envmgr.verbs import needs


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One generation, published or a `candidate`, which may be `withdrawn`; `changes` are `+ entry`, `- entry` and
    `~ entry` against its parent.

    `damaged` is why its record cannot be read, and empty where it can; the rest is then not known.
    """

    number: int
    current: bool
    created: str
    user: str
    host: str
    reason: str
    entries: int
    changes: tuple[str, ...]
    damaged: str = ""
    candidate: bool = False
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class HistoryResult(Result):
    """The history. `flips` are all publishes and rollbacks, oldest first."""

    schema: ClassVar[str] = "envmgr.history/1"
    generations: tuple[HistoryRow, ...]
    flips: tuple[dict[str, object], ...]

    def lines(self) -> Lines:
        rows = [
            [
                "*" if g.current else "w" if g.withdrawn else "c" if g.candidate else " ",
                str(g.number),
                g.created or "?",
                f"{g.user}@{g.host}" if not g.damaged else "?",
                str(g.entries) if not g.damaged else "?",
                g.damaged or " ".join(g.changes) or "re-rendered",
            ]
            for g in self.generations
        ]
        yield Table(rows, ["", "gen", "created", "by", "entries", "changes"])
        if not rows:
            yield "nothing is published, as this host sees the prefix"
        for flip in self.flips:
            if str(flip["reason"]).startswith("rollback"):
                yield f"rolled back {flip['from']} -> {flip['to']}  {flip['time']}  {flip['user']}@{flip['host']}"


@needs("prefix")
def history(ctx: Context) -> HistoryResult:
    """List generations: time, user, changes.

    `*` marks the current one. Rollbacks come after the list.
    """
    # Also with a damaged `current`: it shows the numbers that a rollback can take.
    current = known_current(ctx.prefix)
    rows = []
    waiting, last = candidate_numbers(ctx.prefix) - once_current(ctx.prefix), 0
    with suppress(EnvmgrError):  # the list is what helps then
        last = last_withdrawn(ctx.prefix)
    records, damaged = read_records(ctx.prefix)
    for number in complete_numbers(ctx.prefix):
        marks = number in waiting, number in waiting and number <= last
        if number in damaged:
            why = damaged[number].message
            rows.append(HistoryRow(number, number == current, "", "", "", "", 0, (), why, *marks))
        if (record := records.get(number)) is None:
            continue
        before = records[record.parent].entries if record.parent in records else {}
        other = (e for e in {*before, *record.entries} if before.get(e) != record.entries.get(e))
        changes = marked(other, before, record.entries)
        count, own = len(record.entries), (record.created, record.user, record.host, record.reason)
        rows.append(HistoryRow(number, number == current, *own, count, changes, "", *marks))
    return HistoryResult(tuple(rows), tuple(flips(ctx.prefix)))
