"""Each drift of tests/cluster/audit/foreign_drifts.yaml, on a cluster without envmgr that has four kinds of trees: right, badly or missed; undone."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.drifts import foreign_drifts
from tests.helpers.foreign_scene import KINDS, make, tried

ROUNDS = len(foreign_drifts())
_NFS = 3.0  # seconds for which nodes remember attributes


def play(seed: int, first: int, last: int) -> Iterator[str]:
    count: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        scene = make(Path(folder) / "lab", KINDS)
        try:
            for drift in foreign_drifts()[first - 1 : last]:
                scene.cluster.wait_idle()
                verdict = tried(drift, scene)
                time.sleep(_NFS)
                count[verdict.said] += 1
                yield "\n    ".join([f"{drift.name}: {verdict.said}; {dict(count)}", *verdict.why])
        finally:
            scene.cluster.down()
