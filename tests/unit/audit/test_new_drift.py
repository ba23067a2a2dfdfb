"""The example of a drift in CONTRIBUTING.md: its rows and shell lines, put into a copy of the package, find it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from envmgr.audit.checks import all_checks
from envmgr.audit.judge import judge
from envmgr.audit.model import Check
from envmgr.audit.table import Declared, read_table
from envmgr.probe import shell as probe
from envmgr.probe.model import Facts
from envmgr.probe.shell import read_lines
from envmgr.report import Finding
from envmgr.system.shelltext import script_text
from tests.helpers import evidence
from tests.helpers.contributing import DRIFT_SHELL, DRIFT_TABLE, add_drift, examples
from tests.helpers.drifts import Drift, all_drifts
from tests.helpers.exposition import WELL, text
from tests.helpers.places import ROOT

FACT = "clock.zone"
USUAL, OTHER = "/usr/share/zoneinfo/Etc/UTC", "/usr/share/zoneinfo/Europe/Berlin"


@pytest.fixture
def drift(tmp_path: Path) -> Drift:
    for name in (DRIFT_TABLE, DRIFT_SHELL):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    return add_drift(tmp_path)


@pytest.fixture
def check(tmp_path: Path, drift: Drift, monkeypatch: pytest.MonkeyPatch) -> Check:
    """The check with the example's rows; evidence may have their facts."""
    table = read_table(tmp_path / DRIFT_TABLE)
    monkeypatch.setattr(evidence, "declared", lambda: Declared(table))
    return replace(all_checks()[table.check], table=table)


def findings(check: Check, **zones: str) -> tuple[Finding, ...]:
    answers = {node: {FACT: zone, f"{check.part}.looked.prefix": "yes"} for node, zone in zones.items()}
    judged = judge(evidence.evidence(answers), {check.name: check})
    assert judged.mistakes == {}
    return judged.findings


def test_row_judges_nodes_as_the_page_shows(check: Check) -> None:
    assert findings(check, c1=USUAL, c2=USUAL, c3=USUAL) == ()
    shown = text(replace(WELL, findings=findings(check, c1=USUAL, c2=OTHER, c3=USUAL)), "table").split("\n\n")[1]
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    on_page = page.partition("The audit then reports:\n\n")[2].partition("\n\n")[0]
    assert shown.startswith("warning[clock] c2: ")
    assert dedent(on_page) == shown


def test_node_without_the_link_is_accused_too(check: Check) -> None:
    (finding,) = findings(check, c1=USUAL, c2="", c3=USUAL)
    assert (finding.nodes, finding.found) == ("c2", "is no link")


def test_shell_lines_report_the_fact_of_the_row(check: Check, tmp_path: Path) -> None:
    (added,) = check.table.keys - all_checks()[check.name].table.keys
    facts = run_lines(examples()[DRIFT_SHELL], tmp_path)
    assert list(facts) == [added] == [FACT]
    clock = Path("/etc/localtime")
    assert facts[FACT] == (str(clock.readlink()) if clock.is_symlink() else "")


def run_lines(lines: str, folder: Path) -> Facts:
    """What shell lines report under sh, behind the library that each stage of a probe has."""
    script = folder / "stage.sh"
    script.write_text(f"set -u\nmark=\n{script_text(probe.__file__, 'library.sh')}{lines}")
    done = subprocess.run(["/bin/sh", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return read_lines(done.stdout.splitlines())


def test_row_of_the_test_is_one_that_campaigns_take(check: Check, drift: Drift) -> None:
    assert drift.name not in {each.name for each in all_drifts()}
    assert drift.check == check.name
    found = findings(check, c1=USUAL, c2=OTHER, c3=USUAL)
    (told,) = drift.findings({"findings": [vars_of(each) for each in found]})
    assert drift.hint in told["hint"]
    for script in (drift.do, drift.undo):
        assert subprocess.run(["/bin/sh", "-n"], input=script, text=True, check=False).returncode == 0


def vars_of(finding: Finding) -> dict[str, str]:
    return {name: getattr(finding, name) for name in ("check", "severity", "nodes", "where", "found", "hint")}
