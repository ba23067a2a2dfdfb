"""A healthy cluster over real NFS: every audit is green, by ssh and by jobs in turn, and leaves no process, folder or job."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.audit_scene import make
from tests.helpers.traces import traces
from tests.helpers.waiting import soon

ROUNDS = 100


def play(seed: int, first: int, last: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        scene = make(Path(folder) / "lab", "nfs")
        try:
            before = traces(scene.cluster)
            for number in range(first, last + 1):
                via = ("ssh", "slurm", "both")[number % 3]
                result = scene.audit("--via", via, code=0)
                assert result["findings"] == []
                assert soon(lambda: traces(scene.cluster) == before), traces(scene.cluster) - before
                yield f"{via}: {result['seconds']:.1f} s"
        finally:
            scene.cluster.down()
