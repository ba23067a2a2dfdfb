"""docs/reliability.md: the table that the campaign `faults` keeps, a row for each verb, fault and file system."""

from __future__ import annotations

import datetime
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from envmgr.system.files import atomic_write
from tests.helpers.faults.rounds import FAULTS, Outcome
from tests.helpers.places import ROOT

PAGE = ROOT / "docs/reliability.md"
_HEAD = "| verb | fault | file system | rounds | broken | tracebacks | left | tree | date |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"


@dataclass(frozen=True, slots=True)
class Row:
    """`rounds` in which a call was met; in how many of them something was broken, told as a traceback, left."""

    verb: str
    fault: str
    system: str
    rounds: int
    broken: int
    tracebacks: int
    left: int
    tree: str
    date: str

    def __str__(self) -> str:
        counts = map(str, (self.rounds, self.broken, self.tracebacks, self.left))
        return f"| {' | '.join((self.verb, self.fault, self.system, *counts, self.tree, self.date))} |\n"


def read_rows() -> list[Row]:
    rows = []
    for line in PAGE.read_text().split(_HEAD, 1)[1].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 9:
            rows.append(Row(*cells[:3], *map(int, cells[3:7]), *cells[7:]))  # type: ignore[arg-type]
    return rows


def write_rows(system: str, verb: str, outcomes: Sequence[Outcome]) -> None:
    """In place of the rows that the verb had on that file system."""
    tree, date = _tree(), datetime.datetime.now(datetime.UTC).date().isoformat()
    rows = [row for row in read_rows() if (row.system, row.verb) != (system, verb)]
    for fault in FAULTS:
        met = [outcome for outcome in outcomes if outcome.fault == fault and outcome.call]
        if met:
            counts = (sum(bool(getattr(each, what)) for each in met) for what in ("broken", "tracebacks", "left"))
            rows.append(Row(verb, fault, system, len(met), *counts, tree, date))
    order = list(FAULTS)
    rows.sort(key=lambda row: (row.verb, row.system, order.index(row.fault)))
    before = PAGE.read_text().split(_HEAD, 1)[0]
    atomic_write(PAGE, before + _HEAD + "".join(map(str, rows)))


def _tree() -> str:
    """What git calls the folder envmgr/ in the last commit; with a `+` where files of it differ."""
    return _git("rev-parse", "--short=12", "HEAD:envmgr") + (
        "+" if _git("status", "--porcelain", "--", "envmgr") else ""
    )


def _git(*argv: str) -> str:
    found = subprocess.run(["git", *argv], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return re.sub(r"\s+$", "", found)
