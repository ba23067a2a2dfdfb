"""A healthy cluster over real NFS: every audit is green, by ssh and by jobs in turn, and leaves no process, folder or job."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.audit_scene import Audited, make
from tests.helpers.waiting import soon

ROUNDS = 100


def play(seed: int, first: int, last: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        scene = make(Path(folder) / "lab", "nfs")
        try:
            before = _traces(scene)
            for number in range(first, last + 1):
                via = ("ssh", "slurm", "both")[number % 3]
                result = scene.audit("--via", via, code=0)
                assert result["findings"] == []
                assert soon(lambda: _traces(scene) == before), _traces(scene) - before
                yield f"{via}: {result['seconds']:.1f} s"
        finally:
            scene.cluster.down()


def _traces(scene: Audited) -> set[str]:
    """What could be left of an audit: its processes and folders on nodes, its jobs."""
    cluster = scene.cluster
    found = {f"job {line}" for line in cluster.exec("login", ["squeue", "-h"]).stdout.splitlines()}
    for node in cluster.compute:
        found |= {f"{node}: {line}" for line in cluster.processes(node) if "envmgr-audit" in line}
        found |= {
            f"{node}: {line}"
            for line in cluster.sh(
                node, "find /tmp -path '/tmp/envmgr-*' ! -path '/tmp/envmgr-build-*'"
            ).stdout.splitlines()
        }
    return found
