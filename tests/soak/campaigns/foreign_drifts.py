"""Each drift of tests/cluster/audit/foreign_drifts.yaml, on a cluster without envmgr that has four kinds of trees: told of its nodes alone, undone.

Hints that mend are followed. One that is not told says why (`missed`), and is told by nobody.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.foreign_drifts import follow, foreign_drifts
from tests.helpers.foreign_scene import KINDS, make

ROUNDS = len(foreign_drifts())
_NFS = 3.0  # seconds for which nodes remember attributes


def play(seed: int, first: int, last: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        scene = make(Path(folder) / "lab", KINDS)
        try:
            for drift in foreign_drifts()[first - 1 : last]:
                scene.cluster.wait_idle()
                with drift.put(scene.cluster):
                    findings = scene.findings(*drift.ask)
                    told = drift.is_told(findings)
                    if told and drift.mends:
                        assert follow(told, scene.cluster), told["hint"]
                        again = scene.findings(*drift.ask)
                        assert not drift.is_told(again), (drift.name, again)
                time.sleep(_NFS)
                assert not drift.strangers(findings), (drift.name, drift.strangers(findings))
                if drift.missed:
                    assert not told, f"{drift.name} is told: take `missed` away: {told}"
                    yield f"{drift.name}: not told: {drift.missed}"
                else:
                    assert told, (drift.name, findings)
                    mended = ", mended by its hint" if drift.mends else ""
                    yield f"{drift.name}{mended}: {told['severity']}[{told['check']}] {told['nodes']}: {told['where']}: {told['found'][:100]}"
        finally:
            scene.cluster.down()
