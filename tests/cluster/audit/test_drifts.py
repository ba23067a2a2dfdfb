"""Drifts that reviewers wrote down, with what must be told, before they were audited: each is told, and its hint mends it."""

from __future__ import annotations

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.drifts import Drift, all_drifts, follow_all
from tests.helpers.marks import LATER

pytestmark = pytest.mark.xdist_group("audited")


# The checks whose real faults are in the other files of this folder.
ELSEWHERE = {"ambient", "contexts", "lmod", "modulefiles", "mount", "nodes", "places", "resolution", "software"}


def drifts() -> list[object]:
    """One for each other check, with a hint that mends where the check has one; `make soak SOAK=known_drifts` puts all, under whole audits."""
    first: dict[str, Drift] = {}
    for drift in sorted(all_drifts(), key=lambda drift: not drift.mends):
        if not drift.waits and drift.check not in ELSEWHERE:
            first.setdefault(drift.check, drift)
    return [
        pytest.param(drift, id=drift.name, marks=() if first.get(drift.check) == drift else LATER)
        for drift in all_drifts()
    ]


@pytest.mark.parametrize("drift", drifts())
def test_drift_is_told_and_its_hint_mends_it(audited: Audited, drift: Drift) -> None:
    audited.cluster.wait_idle()
    with drift.put(audited.cluster):
        result = audited.audit(*drift.ask)
        told = drift.findings(result)
        assert len(told) == len(drift.told), result["findings"]
        assert drift.hint in told[0]["hint"]
        if drift.mends:
            follow_all(told, audited.cluster)
            again = audited.audit(*drift.ask)
            assert not drift.findings(again), again["findings"]
