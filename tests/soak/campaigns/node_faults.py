"""Faults by chance, on a node by chance: the audit names the fault and no other node, and is green once it is mended."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from tests.helpers.audit_scene import make
from tests.helpers.cluster import Cluster, faults

ROUNDS = 200

# The fault, and the check that must name it.
Fault = Callable[[Cluster, str], AbstractContextManager[None]]
FAULTS: Mapping[str, tuple[Fault, str]] = {
    "unmounted": (faults.unmounted, "mount"),
    "read-only": (faults.read_only, "mount"),
    "hung": (faults.hung, "mount"),
    "no sshd": (faults.sshd_stopped, "nodes"),
    "frozen": (faults.frozen_node, "nodes"),
    "other host key": (faults.changed_host_key, "nodes"),
    "other Lmod": (faults.other_lmod, "lmod"),
    "other driver": (lambda cluster, node: faults.fake_driver(cluster, node, "470.57.02"), "fitness"),
    "old processor": (faults.fake_cpu, "fitness"),
}


def play(seed: int, first: int, last: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        scene = make(Path(folder) / "lab", "nfs")
        try:
            for number in range(first, last + 1):
                chance = random.Random(f"{seed}/{number}")
                name, node = chance.choice(sorted(FAULTS)), chance.choice(scene.cluster.compute)
                fault, check = FAULTS[name]
                with fault(scene.cluster, node):
                    found = scene.audit("--via", "ssh")["findings"]
                assert check in {finding["check"] for finding in found}, (name, node, found)
                assert {finding["nodes"] for finding in found} == {node}, (name, node, found)
                scene.cluster.clear()
                assert scene.findings("--via", "ssh", code=0) == [], f"after {name} on {node}"
                yield f"{name} on {node}"
        finally:
            scene.cluster.down()
