"""Faults by chance, on a node by chance: the audit names that node and no other, and is green once it is mended."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from tests.helpers.audit_scene import make
from tests.helpers.cluster import Cluster, faults

ROUNDS = 200

Fault = Callable[[Cluster, str], AbstractContextManager[None]]
FAULTS: Mapping[str, Fault] = {
    "unmounted": faults.unmounted,
    "read-only": faults.read_only,
    "hung": faults.hung,
    "no sshd": faults.sshd_stopped,
    "frozen": faults.frozen_node,
    "other host key": faults.changed_host_key,
    "other Lmod": faults.other_lmod,
    "other driver": lambda cluster, node: faults.fake_driver(cluster, node, "470.57.02"),
    "old processor": faults.fake_cpu,
}


def play(seed: int, first: int, last: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        scene = make(Path(folder) / "lab", "nfs")
        try:
            for number in range(first, last + 1):
                chance = random.Random(f"{seed}/{number}")
                name, node = chance.choice(sorted(FAULTS)), chance.choice(scene.cluster.compute)
                with FAULTS[name](scene.cluster, node):
                    found = scene.audit("--via", "ssh")["findings"]
                assert {finding["nodes"] for finding in found} == {node}, (name, node, found)
                scene.cluster.clear()
                assert scene.findings("--via", "ssh", code=0) == [], f"after {name} on {node}"
                yield f"{name} on {node}"
        finally:
            scene.cluster.down()
