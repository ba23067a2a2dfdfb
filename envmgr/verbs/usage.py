"""`envmgr usage`: how often entries were loaded, counted in the text of a journal or a syslog. It writes nothing."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from envmgr.errors import InputError
from envmgr.publish.records import read_specs
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context, published_record
from envmgr.verbs import argument, needs
from envmgr.wording import and_more, counted, one_line

# As modulefiles/usage_note.lua writes it: entry, generation, job, the entry that loaded it, day, node. Journals and syslogs
# write the tag in ways of their own; in `journalctl -o cat` there is none.
_BEGIN = rb"(?:^|\benvmgr\b.{0,20} )load "
_LOAD = re.compile(_BEGIN + rb"1 (\S+) \d+ (\d+|-) (\S+) (\d{4}-\d\d-\d\d) \S+\s*$")
_SAID = re.compile(_BEGIN + rb"\d")
_LONGEST = 8192  # bytes of a line; what a longer one has after them is no load
_HINT = "`journalctl -t envmgr | envmgr usage`, or the file that your syslog writes: `envmgr usage FILE`"


@dataclass(frozen=True, slots=True)
class EntryUse:
    """The loads of an entry: `own` by users, `by` entries that depend on it, `jobs` of both. `last` is the day of the last
    one, empty without one; `deprecated` is what the entry's module says.
    """

    entry: str
    own: int
    by: Mapping[str, int]
    jobs: int
    last: str
    deprecated: str


@dataclass(frozen=True, slots=True)
class UsageResult(Result):
    """The loads of all published entries, from day `first` to day `last`, both empty without one. `others` are loads of
    entries that are not published, and lines that make no sense. `recorded` says whether modules report loads now.
    """

    schema: ClassVar[str] = "envmgr.usage/1"
    entries: tuple[EntryUse, ...]
    first: str
    last: str
    others: int
    recorded: bool

    def lines(self) -> Lines:
        yield Table([_row(each) for each in self.entries], ["entry", "loads", "by others", "in jobs", "last load", ""])
        loads = counted(sum(each.own + sum(each.by.values()) for each in self.entries), "loads")
        yield f"{loads} from {self.first} to {self.last}" if self.first else "no load is in this text"
        if self.others:
            yield f"left out: {counted(self.others, 'lines')} of entries that are not published, or without sense"
        if not self.recorded:
            yield "loads are not recorded now: site.yaml has no `usage: true`"


@needs("prefix")
def usage(
    ctx: Context,
    files: Annotated[
        list[Path] | None, argument("Text of journals or syslogs; without one, standard input.", "FILE")
    ] = None,
) -> UsageResult:
    """Count how often entries were loaded, in the text of logs.

    With `usage: true` in site.yaml, modules report each load to the syslog of their node. Collect these lines from the
    nodes; envmgr only counts them.
    """
    specs = read_specs(ctx.prefix, published_record(ctx).number)
    # Entry -> the entry that loaded it, or -.
    loads: dict[str, Counter[str]] = {name: Counter() for name in sorted(specs)}
    days: dict[str, set[str]] = {name: set() for name in loads}
    jobs, others, loaders = Counter[str](), 0, {"-", *loads}
    for line in _lines(files or ()):
        if (match := _LOAD.search(line)) is None:
            others += _SAID.search(line) is not None
            continue
        entry, job, by, day = (each.decode(errors="replace") for each in match.groups())
        if entry not in loads or by not in loaders:
            others += 1
            continue
        loads[entry][by] += 1
        days[entry].add(day)
        jobs[entry] += job != "-"
    rows = (
        EntryUse(
            name,
            found["-"],
            {by: count for by, count in found.items() if by != "-"},
            jobs[name],
            max(days[name], default=""),
            _deprecated(specs[name]["spec"].get("deprecated")),
        )
        for name, found in loads.items()
    )
    seen = set().union(*days.values())
    return UsageResult(tuple(rows), min(seen, default=""), max(seen, default=""), others, recorded=ctx.site.usage)


def _deprecated(said: Mapping[str, str] | None) -> str:
    return f"until {said['date']}: {said['message']}" if said else ""


def _lines(files: Sequence[Path]) -> Iterator[bytes]:
    if not files and os.isatty(0):
        raise InputError("usage-unread", "name the files whose loads to count, or give their text", hint=_HINT)
    for file in files or (0,):
        try:
            # 0 is standard input, which may be a socket: that has no path that can be opened.
            with open(file, "rb", closefd=file != 0) as text:
                yield from iter(lambda: text.readline(_LONGEST), b"")
        except OSError as error:
            said = f"cannot read {one_line(file) if file else 'standard input'}"
            raise InputError("usage-unread", said, context=one_line(error), hint=_HINT) from None


def _row(use: EntryUse) -> list[str]:
    more = [f"by {and_more(sorted(use.by), 3)}"] if use.by else []
    more += [f"deprecated {use.deprecated}"] if use.deprecated else []
    return [use.entry, str(use.own), str(sum(use.by.values())), str(use.jobs), use.last, "; ".join(more)]
