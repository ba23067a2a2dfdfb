"""docs/campaigns.md: the table that the campaign `faults` keeps, a row for each verb and file system."""

from __future__ import annotations

import datetime
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from envmgr.system.files import atomic_write
from tests.helpers.faults.rounds import Outcome
from tests.helpers.places import ROOT

PAGE = ROOT / "docs/campaigns.md"
_HEAD = "| verb | file system | kinds of fault | rounds | broken | tracebacks | left | tree | date |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"


@dataclass(frozen=True, slots=True)
class Row:
    """`faults` are the kinds of fault that met a call, in `rounds`; the rest counts rounds with something broken, a traceback, or leftovers."""

    verb: str
    system: str
    faults: int
    rounds: int
    broken: int
    tracebacks: int
    left: int
    tree: str
    date: str

    def __str__(self) -> str:
        counts = map(str, (self.faults, self.rounds, self.broken, self.tracebacks, self.left))
        return f"| {' | '.join((self.verb, self.system, *counts, self.tree, self.date))} |\n"


def read_rows() -> list[Row]:
    rows = []
    for line in _parts()[1].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows.append(Row(*cells[:2], *map(int, cells[2:7]), *cells[7:]))  # type: ignore[arg-type]
    return rows


def write_rows(system: str, verb: str, outcomes: Sequence[Outcome]) -> None:
    """In place of the row that the verb had on that file system."""
    before, _, after = _parts()
    rows = [row for row in read_rows() if (row.system, row.verb) != (system, verb)]
    if met := [outcome for outcome in outcomes if outcome.call]:
        counts = (sum(bool(getattr(each, what)) for each in met) for what in ("broken", "tracebacks", "left"))
        date = datetime.datetime.now(datetime.UTC).date().isoformat()
        rows.append(Row(verb, system, len({each.fault for each in met}), len(met), *counts, _tree(), date))
    rows.sort(key=lambda row: (row.verb, row.system))
    atomic_write(PAGE, before + _HEAD + "".join(map(str, rows)) + after)


def _parts() -> tuple[str, str, str]:
    """The page before the table, its rows, and the page behind it."""
    before, _, rest = PAGE.read_text().partition(_HEAD)
    rows, blank, after = rest.partition("\n\n")
    return before, rows, f"{blank[1:]}{after}"


def _tree() -> str:
    """What git calls the folder envmgr/ in the last commit; with a `+` where files of it differ."""
    return _git("rev-parse", "--short=12", "HEAD:envmgr") + (
        "+" if _git("status", "--porcelain", "--", "envmgr") else ""
    )


def _git(*argv: str) -> str:
    found = subprocess.run(["git", *argv], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return re.sub(r"\s+$", "", found)
