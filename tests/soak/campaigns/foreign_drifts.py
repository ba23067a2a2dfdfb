"""Each drift of tests/cluster/audit/foreign_drifts.yaml, on a cluster without envmgr that has four kinds of trees: told of its nodes alone, undone.

Hints that mend are followed. One that is not told says why (`missed`), and is told by nobody.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.foreign_drifts import foreign_drifts
from tests.helpers.foreign_scene import KINDS, make, tried

ROUNDS = len(foreign_drifts())
_NFS = 3.0  # seconds for which nodes remember attributes


def play(seed: int, first: int, last: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        scene = make(Path(folder) / "lab", KINDS)
        try:
            for drift in foreign_drifts()[first - 1 : last]:
                scene.cluster.wait_idle()
                told = tried(drift, scene)
                time.sleep(_NFS)
                if told is None:
                    yield f"{drift.name}: not told: {drift.missed}"
                else:
                    mended = ", mended by its hint" if drift.mends else ""
                    yield f"{drift.name}{mended}: {told['severity']}[{told['check']}] {told['nodes']}: {told['where']}: {told['found'][:100]}"
        finally:
            scene.cluster.down()
