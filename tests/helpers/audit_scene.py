"""A cluster that is set up and green, for tests of the audit: real NFS, two entries, node-setup, jobs' TaskProlog.

It is built on the file server, as many sites do; there the prefix is a bind mount, so that building takes seconds. What is
published later is published from the login node, over NFS.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envmgr.modules.node_paths import SLURM_LINE
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.cluster import Share
from tests.helpers.done import Done

ENTRIES = ("hello/1.0", "hello/2.0")
SITE = "/etc/envmgr"


@dataclass(frozen=True)
class Audited:
    cluster: Cluster

    @property
    def generation(self) -> int:
        return int((self.cluster.host_prefix / "current").readlink().name)

    def envmgr(self, *argv: str, node: str = "login") -> Done:
        """It must succeed."""
        done = self.cluster.envmgr(argv, node=node)
        assert done.code == 0, f"{argv}: {done.code}\n{done.stdout}{done.stderr}"
        return done

    def audit(self, *argv: str, code: int | None = None, **options: Any) -> dict[str, Any]:
        """The audit's JSON; `code` is the exit code that it must have."""
        done = self.cluster.envmgr(["audit", "--format", "json", *argv], **options)
        assert code is None or done.code == code, f"exit {done.code}\n{done.stdout}{done.stderr}"
        return done.data

    def findings(self, *argv: str, **options: Any) -> list[tuple[str, str, str, str, str]]:
        """(severity, check, nodes, where, found) of every finding, in the audit's order."""
        keys = ("severity", "check", "nodes", "where", "found")
        return [tuple(f[k] for k in keys) for f in self.audit(*argv, **options)["findings"]]  # type: ignore[misc]

    def causes(self, *argv: str, **options: Any) -> list[tuple[str, str, str]]:
        """(severity, nodes, where) of every finding that follows from no other one, in the audit's order."""
        return [(f["severity"], f["nodes"], f["where"]) for f in self.audit(*argv, **options)["causes"]]

    def set_up(self, nodes: str) -> None:
        self.envmgr("node-setup", "--apply", "--nodes", nodes)

    def task_prolog(self) -> None:
        """The line that slurm.conf needs, everywhere."""
        for node in ("login", *self.cluster.compute):
            self.cluster.sh(
                node, f"grep -q TaskProlog /etc/slurm/slurm.conf || echo {SLURM_LINE} >>/etc/slurm/slurm.conf"
            )
        self.cluster.exec("login", ["scontrol", "reconfigure"], check=True)
        self.cluster.wait_idle()


def make(folder: Path, share: Share, **settings: Any) -> Audited:
    cluster = Cluster(folder, share=share)
    cluster.up()
    scene = Audited(cluster)
    cluster.write_site(
        **{"slurm": {"heal_export": False}, **settings}
    )  # decided: no note on every job with --export=NONE
    cluster.recipe(ENTRIES[0], ["python"])
    cluster.recipe(ENTRIES[1], ["python"], default=True, tests=[{"name": "runs", "run": "python -c 'print(1)'"}])
    scene.envmgr("lock", *ENTRIES)
    _copy(cluster, "login", "fs1", SITE)
    cluster.sh("fs1", f"mkdir -p {cluster.prefix}; mount --bind /export/sw {cluster.prefix}", check=True)
    scene.envmgr("build", *ENTRIES, node="fs1")
    scene.set_up("login,c[1-3]")
    scene.task_prolog()
    return scene


def _copy(cluster: Cluster, source: str, target: str, path: str) -> None:
    """A folder of one node onto another."""
    there, here = (Path(f"/proc/{cluster.pid(node)}/root{path}") for node in (source, target))
    here.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", f"{there}/.", here], check=True)


@pytest.fixture(scope="session")
def audited(cluster_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    """Over real NFS with attributes cached 3 s. A test leaves it green: at the end of all it is."""
    scene = make(tmp_path_factory.mktemp("audited") / "lab", "nfs")
    yield scene
    left = scene.findings("--via", "both")
    scene.cluster.down()
    assert left == []
