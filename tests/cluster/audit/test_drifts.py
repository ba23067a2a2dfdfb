"""Drifts that reviewers wrote down, with what must be told, before they were audited: each is told, and its hint mends it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.drifts import Drift, all_drifts, follow_all

pytestmark = pytest.mark.xdist_group("audited")


@pytest.fixture(scope="module", autouse=True)
def _green_again(audited: Audited) -> Iterator[None]:
    yield
    assert audited.findings("--via", "both") == []


def drifts() -> list[object]:
    """One for each check and its contexts; `make soak SOAK=drifts` puts all, under whole audits."""
    seen: set[tuple[str, ...]] = set()
    chosen = []
    for drift in all_drifts():
        marks = [pytest.mark.slow, pytest.mark.soak] if drift.ask in seen or drift.waits else []
        seen.add(drift.ask)
        chosen.append(pytest.param(drift, id=drift.name, marks=marks))
    return chosen


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
