"""The example of a drift in CONTRIBUTING.md: its row, put into a copy of the table, says what it breaks."""

from __future__ import annotations

import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import dedent

import pytest

from envmgr.audit.checks import get_check
from envmgr.audit.findings import Caused
from envmgr.audit.inventory.kinds import KINDS, InventoryKind
from envmgr.audit.judge import judge
from envmgr.audit.table import read_yaml
from tests.helpers.contributing import DRIFT_TABLE, add_drift
from tests.helpers.drift_measure import judged
from tests.helpers.drifts import Drift, all_drifts
from tests.helpers.evidence import evidence
from tests.helpers.exposition import WELL, text
from tests.helpers.places import ROOT

LOOKED = {"inventory.looked.node": "yes", "inventory.looked.login": "yes"}
HAS = {"inventory.file": r"/etc/ntp.conf\t0123456789ab 644 root:root"}


@pytest.fixture
def drift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drift:
    """The drift of the page, with its row in the table."""
    copy = tmp_path / DRIFT_TABLE
    copy.parent.mkdir(parents=True)
    copy.write_text((ROOT / DRIFT_TABLE).read_text())
    drift = add_drift(tmp_path)
    for name, kind in read_yaml(copy).items():
        monkeypatch.setitem(KINDS, name, InventoryKind.model_validate(kind))
    return drift


def findings() -> tuple[Caused, ...]:
    answers = {node: LOOKED | (HAS if node == "c2" else {}) for node in ("c1", "c2", "c3")}
    return judge(evidence(answers), {"inventory": get_check("inventory")}).findings


def test_row_says_what_the_page_shows(drift: Drift) -> None:
    shown = text(replace(WELL, findings=findings()), "table").split("\n\n")[1]
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    on_page = page.partition("The audit then reports:\n\n")[2].partition("\n\n")[0]
    assert shown.startswith("warning[inventory] c2: ")
    assert dedent(on_page) == shown


def test_without_the_row_it_is_a_note() -> None:
    (found,) = findings()
    assert (found.severity, found.found) == ("note", "/etc/ntp.conf is there, and not on others")


def test_row_of_the_test_is_one_that_campaigns_take(drift: Drift) -> None:
    assert drift.name not in {each.name for each in all_drifts()}
    assert (
        judged({"causes": (told := [asdict(each) for each in findings()]), "findings": told}, [drift.expected]).why
        == ()
    )
    for script in (drift.do, drift.undo):
        assert subprocess.run(["/bin/sh", "-n"], input=script, text=True, check=False).returncode == 0
