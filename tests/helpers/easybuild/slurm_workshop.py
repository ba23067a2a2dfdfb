"""The test cluster with toys to build as Slurm jobs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.site import SITE
from tests.helpers.done import Done
from tests.helpers.easybuild.workshop import TOY_MAKEFILE, Workshop
from tests.helpers.waiting import DEADLINE

# Builds for as long as the gate of its name is shut.
GATED = TOY_MAKEFILE.replace("\tcc -O2", "\twhile [ -e /cluster/sw/gates/{name} ]; do sleep 0.1; done\n\tcc -O2")
BROKEN = GATED.replace("\tcc -O2", "\t@echo 'toy.c:7: error: no such luck' >&2; exit 7\n\tcc -O2")


class Shop:
    """The cluster with toys to build: easyconfigs on the login node alone, sources under the prefix."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.gates = cluster.host_prefix / "gates"
        self._box = Workshop(folder, "")

    def write_site(self, **overrides: Any) -> None:
        self.cluster.write_site(
            easyconfigs=["easyconfigs"], sources={"mirrors": ["/cluster/sw/mirror"], "upstream": False}, **overrides
        )

    def toy(self, name: str, makefile: str = TOY_MAKEFILE, **fields: Any) -> None:
        path = self._box.toy(name, files={"Makefile": makefile.format(name=name)}, **fields)
        self.cluster.write("login", SITE.parent / path.relative_to(self._box.root), path.read_text())
        shutil.copytree(self._box.root / "mirror", self.cluster.host_prefix / "mirror", dirs_exist_ok=True)

    def entry(self, name: str) -> None:
        self.cluster.recipe(f"{name}/1.0", [], backend="easybuild", input={"easyconfig": f"{name}-1.0.eb"})

    def lock(self, *names: str) -> None:
        for name in names:
            self.entry(name)
        done = self.cluster.envmgr(["lock", *(f"{name}/1.0" for name in names)])
        assert done.code == 0, done.stderr

    def shut(self, *names: str) -> None:
        self.gates.mkdir(exist_ok=True)
        for name in names:
            (self.gates / name).touch()

    def open(self, *names: str) -> None:
        for name in names:
            (self.gates / name).unlink()

    def words(self, names: str, *options: str) -> list[str]:
        return ["build", *(f"{name}/1.0" for name in names.split()), "--via", "slurm", *options]

    def start(self, names: str, *options: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "envmgr", *self.words(names, *options)]
        return self.cluster.start("login", argv, env={"ENVMGR_SITE": str(SITE)})

    def build(self, names: str, *options: str) -> Done:
        return self.cluster.envmgr(self.words(names, *options))

    def jobs(self, fields: str = "%T") -> dict[str, str]:
        """Name of the toy -> what squeue says, of jobs under way."""
        lines = self.cluster.exec("login", ["squeue", "-h", "-o", f"%j|{fields}"]).stdout.splitlines()
        rows = (line.partition("|") for line in lines)
        return {name.removeprefix("envmgr-").partition("-")[0]: rest for name, _, rest in rows}

    def table(self) -> list[str]:
        return sorted(p.name.partition("-")[0] for p in self.cluster.host_prefix.glob("var/jobs/slurm/*"))

    def store(self) -> set[str]:
        return {p.parent.name for p in self.cluster.host_prefix.glob("store/*/*.manifest.json")}

    def logs_with(self, text: str) -> list[str]:
        """Of builds, on the submitting side."""
        return [
            p.name for p in self.cluster.host_prefix.glob("var/log/*-build-*.log") if re.search(text, p.read_text())
        ]

    def runs(self, name: str) -> bool:
        """Whether its compiler waits at the gate: slower than Slurm's word for it."""
        return any(f"/gates/{name} " in line for node in self.cluster.compute for line in self.cluster.processes(node))

    def clear(self) -> None:
        """End all builds and jobs of a test, whatever became of it; what is finished stays in the store."""
        self.cluster.clear()
        for name in ("gates", "var/jobs/slurm"):
            remove_tree(self.cluster.host_prefix / name)
        self.write_site()


def ended(process: subprocess.Popen[str], timeout: float = 2 * DEADLINE) -> Done:
    out, err = process.communicate(timeout=timeout)
    assert "Traceback" not in err, err
    return Done(process.returncode, out, err)


def leave(cluster: Cluster, process: subprocess.Popen[str], signal: str) -> Done:
    cluster.sh("login", f"pkill -{signal} -f 'envmgr build .*--via slurm'", check=True)
    return ended(process)


def open_shop(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    cluster.empty_prefix(owner="rsw")
    _clear(cluster)
    made = Shop(cluster, tmp_path_factory.mktemp("shop"))
    made.write_site()
    cluster.exec("login", ["scontrol", "create", "PartitionName=small", "Nodes=c1", "State=UP"], check=True)
    cluster.exec("login", ["scontrol", "create", "PartitionName=far", "Nodes=c3", "State=UP"], check=True)
    yield made
    cluster.clear()
    for name in ("small", "far"):
        cluster.exec("login", ["scontrol", "delete", f"PartitionName={name}"])
    _clear(cluster)


def _clear(cluster: Cluster) -> None:
    """No install and no request of the test before."""
    left = [cluster.host_prefix / name for name in ("easybuild", "var/jobs/slurm", "gates", "mirror")]
    for path in (*left, *cluster.host_prefix.glob("store/*")):
        remove_tree(path)
