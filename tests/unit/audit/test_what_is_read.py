"""The table of docs/audit.md that says what programs read before they run: it claims what checks look at, and no more."""

from __future__ import annotations

import re

import pytest

from envmgr.audit.checks import __path__ as folders
from envmgr.audit.checks import all_checks
from tests.helpers.places import ROOT

PAGE = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
LINES = PAGE.partition("### What programs read before they run")[2].partition("\n#")[0].splitlines()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in LINES if line.startswith("| ")][2:]
CHECKS = all_checks()


@pytest.mark.parametrize("row", [pytest.param(row, id=row[0][:40]) for row in ROWS])
def test_row_names_checks_and_facts_that_are_there_or_says_that_nobody_looks(row: list[str]) -> None:
    what, compared, judged, whom, by = row
    if "not looked at" in by:
        assert "`" not in by
        assert by != "not looked at" or (compared, judged, whom) == ("no", "no", "")
        return
    assert whom
    assert (compared, judged) != ("no", "no")
    said = ""
    for of_check in by.split("; "):
        name, facts = of_check.split(": ")
        table = CHECKS[name.strip("`")].table
        said += "".join(path.read_text("utf-8") for path in sorted((ROOT / folders[0]).glob(f"{table.part}.*")))
        for fact in re.findall("`([^`]+)`", facts):
            assert fact in table.keys, fact
    assert [path for path in re.findall("`(/[^`]+)`", what) if path not in said] == []


def test_table_has_what_checks_compare_of_the_system() -> None:
    named = {name for row in ROWS for name in re.findall("`([a-z-]+)`:", row[4])}
    assert {"ambient", "limits", "linker", "names", "places", "ssh", "startup-files", "system-files"} <= named
