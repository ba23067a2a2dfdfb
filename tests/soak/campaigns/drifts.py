"""Each drift of tests/cluster/audit/drifts.yaml under a whole audit, over ssh and in jobs: told, mended by its hint, undone.

Hints are followed where they are a line or a command. Nothing is told any more once a drift is undone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.audit_scene import make
from tests.helpers.drifts import all_drifts, follow_all

ROUNDS = len(all_drifts())


def play(seed: int, first: int, last: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        scene = make(Path(folder) / "lab", "nfs")
        try:
            for drift in all_drifts()[first - 1 : last]:
                scene.cluster.wait_idle()
                with drift.put(scene.cluster):
                    result = scene.audit("--via", "both")
                    told = drift.findings(result)
                    kinds = {of["found"] for of in drift.told}  # of one kind there may be one for each kind of shell
                    assert len({f["found"] for f in told}) == len(kinds), (drift.name, result["findings"])
                    if drift.mends:
                        follow_all(told, scene.cluster)
                        again = scene.audit("--via", "both")
                        assert not drift.findings(again), (drift.name, again["findings"])
                assert scene.audit("--via", "both", code=0)["findings"] == [], drift.name
                yield f"{drift.name}: {len(result['findings'])} findings"
        finally:
            scene.cluster.down()
