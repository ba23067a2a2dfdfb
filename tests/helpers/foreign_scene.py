"""A cluster that has nothing of envmgr, with modules that others made: on a network file system, and on each node's own disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.cluster import Cluster
from tests.helpers.drift_measure import Verdict, judged
from tests.helpers.drifts import Drift
from tests.helpers.easybuild.foreign_modules import MODULES, plant_easybuild
from tests.helpers.trees import Tree, eessi_shaped, hand_written, plant, spack_shaped, tcl_written, use
from tests.helpers.waiting import PATIENT

NODES = ("login", "c1", "c2", "c3")
SHARED = "/cluster/sw"
LOCAL = "/opt/local-apps"
SPACK = "/opt/spacked"
EESSI = "/cvmfs/software.eessi.io"
KINDS = ("hand", "spack", "eessi", "easybuild")
NO_SITE = {"ENVMGR_SITE": ""}


@dataclass(frozen=True)
class Foreign:
    """Hand-written trees on NFS and on each node."""

    cluster: Cluster

    def audit(self, *argv: str, code: int | None = None, user: str = "root") -> dict[str, Any]:
        """The audit's JSON; `code` is the exit code that it must have."""
        who = ["--user", "alice"] if user == "root" else []
        done = self.cluster.envmgr(
            ["audit", "--nodes", "c[1-3]", "--format", "json", *PATIENT, *who, *argv], user=user, env=NO_SITE
        )
        assert code is None or done.code == code, f"exit {done.code}\n{done.stdout}{done.stderr}"
        return done.data

    def findings(self, *argv: str, code: int | None = None) -> list[dict[str, Any]]:
        """Errors and warnings."""
        return [f for f in self.audit(*argv, code=code)["findings"] if f["severity"] != "note"]

    def told(self, *argv: str, code: int | None = None) -> list[tuple[str, str, str, str, str]]:
        """(severity, check, nodes, where, found) of errors and warnings."""
        keys = ("severity", "check", "nodes", "where", "found")
        return [tuple(f[k] for k in keys) for f in self.findings(*argv, code=code)]  # type: ignore[misc]

    def plant(self, *trees: Tree) -> None:
        """On each node's own disk."""
        for node in NODES:
            for tree in trees:
                plant(tree, self.cluster, node)
        for tree in trees:
            use(tree.folder, self.cluster, NODES)

    def plant_easybuild(self) -> None:
        plant_easybuild(self.cluster, NODES)
        use(MODULES, self.cluster, NODES)


def tried(drift: Drift, scene: Foreign) -> Verdict:
    """What a whole audit is worth on it."""
    with drift.put(scene.cluster):
        return judged(scene.audit("--via", "both", "--deep"), [drift.expected])


def make(folder: Path, kinds: Sequence[str] = ("hand",)) -> Foreign:
    """`kinds` of trees besides the hand-written: spack, eessi, easybuild."""
    cluster = Cluster(folder, share="nfs")
    cluster.up()
    cluster.sh("login", "rm -rf /etc/envmgr", check=True)
    cluster.sh("fs1", "chmod 755 /export/sw", check=True)
    scene = Foreign(cluster)
    plant(hand_written(SHARED), cluster, "login")
    use(hand_written(SHARED).folder, cluster, NODES)
    scene.plant(tcl_written(LOCAL))
    shapes = {"spack": spack_shaped(SPACK), "eessi": eessi_shaped(EESSI)}
    scene.plant(*(shapes[kind] for kind in kinds if kind in shapes))
    if "easybuild" in kinds:
        scene.plant_easybuild()
    return scene
