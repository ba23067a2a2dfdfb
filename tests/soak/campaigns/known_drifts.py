"""Each drift of tests/cluster/audit/drifts.yaml under a whole audit, over ssh and in jobs: right, badly or missed, as `drifts` counts; undone."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import partial

from tests.helpers.cluster import ClusterError
from tests.helpers.drifts import Drift, all_drifts
from tests.soak.campaigns.drifts import VIA, Healthy, measured, played

ROUNDS = len(all_drifts())


def play(seed: int, first: int, last: int) -> Iterator[str]:
    yield from played((drift.name, partial(_round, drift)) for drift in all_drifts()[first - 1 : last])


def _round(drift: Drift, healthy: Healthy) -> tuple[Counter[str], list[str], list[str]]:
    try:
        with drift.put(healthy.scene.cluster):
            said, told = measured([drift.expected], healthy.scene.audit(*VIA), healthy)
        return said, told, healthy.left()
    except (ClusterError, subprocess.TimeoutExpired) as error:
        return Counter(badly=1), [f"it cannot be played: {str(error)[-300:]}"], ["unknown"]
