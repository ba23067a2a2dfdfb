"""Each drift of tests/cluster/audit/foreign_drifts.yaml, on a cluster without envmgr that has four kinds of trees: told of its nodes alone, undone.

One that is not told says why (`missed`), and is told by nobody.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.foreign_drifts import foreign_drifts
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
                time.sleep(_NFS)
                told = drift.is_told(findings)
                assert not drift.strangers(findings), (drift.name, drift.strangers(findings))
                if drift.missed:
                    assert not told, f"{drift.name} is told: take `missed` away: {told}"
                    yield f"{drift.name}: not told: {drift.missed}"
                else:
                    assert told, (drift.name, findings)
                    yield f"{drift.name}: {told['severity']}[{told['check']}] {told['nodes']}: {told['where']}: {told['found'][:100]}"
        finally:
            scene.cluster.down()
