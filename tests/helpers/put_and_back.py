"""A drift that is put on nodes of a test cluster and taken back to the byte, also where it took what a shell needs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from tests.helpers.cluster import Cluster, ClusterError
from tests.helpers.cluster.config import CLEAN, PREFIX

_TOOLS, _KEPT = "/mnt/tools", "/mnt/kept"
_NFS = 4  # seconds after which each node sees what is in the prefix


@dataclass(frozen=True)
class RandomDrift:
    """Wrong on `nodes`: `do` is run on each of `at`. `keeps` are files as they come back, and folders with their mode; then `undo` is run.

    A right report has one of `names`; the first is the place.
    """

    kind: str
    story: str
    names: tuple[str, ...]
    do: str
    undo: str = ":"
    keeps: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    at: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} on {','.join(self.nodes)}: {self.story}"

    @contextmanager
    def put(self, cluster: Cluster) -> Iterator[None]:
        done = []
        try:
            for node in self.at:
                bring_tools(cluster, node)
                done.append(node)
                on(cluster, node, f"set -e; mkdir -p {self._kept}; {self._keep()}{self.do}\nsleep {self._wait}")
            yield
        finally:
            for node in done:
                on(cluster, node, f"{self._back()}{self.undo}\nrm -r {self._kept}; sleep {self._wait}")

    @property
    def _kept(self) -> str:
        return f"{_KEPT}/{self.kind}".replace(" ", "-")

    @property
    def _wait(self) -> int:
        return _NFS * self.names[0].startswith(str(PREFIX))

    def _keep(self) -> str:
        return "".join(
            f"if [ -L {path} ] || [ -f {path} ]; then cp -a {path} {kept}; "
            f"elif [ -d {path} ]; then stat -c '%a %u:%g' {path} >{kept}.mode; fi\n"
            for path, kept in self._each()
        )

    def _back(self) -> str:
        return "".join(
            f"if [ -e {kept}.mode ]; then read -r mode owner <{kept}.mode; chown $owner {path}; chmod $mode {path}\n"
            f"else rm -rf {path}; if [ -e {kept} ] || [ -L {kept} ]; then cp -a {kept} {path}; fi; fi\n"
            for path, kept in self._each()
        )

    def _each(self) -> list[tuple[str, str]]:
        return [(quote(path), f"{self._kept}/{number}") for number, path in enumerate(self.keeps)]


def bring_tools(cluster: Cluster, node: str) -> None:
    """A shell with its tools in one file: what a drift took from a node is not needed to give it back."""
    tools = Path(f"/proc/{cluster.pid(node)}/root{_TOOLS}")
    if not tools.exists():
        tools.mkdir()
        shutil.copy(shutil.which("busybox") or "busybox", tools / "busybox")
        on(cluster, node, f"{_TOOLS}/busybox --install -s {_TOOLS}")


def on(cluster: Cluster, node: str, script: str) -> str:
    space = ["nsenter", "-t", str(cluster.pid(node)), "-m", "-u", "-i", "-n", "-p", "-r", "-w", "--"]
    env = {**CLEAN, "PATH": f"{_TOOLS}:{CLEAN['PATH']}"}
    done = subprocess.run(
        [*space, f"{_TOOLS}/busybox", "sh", "-c", script],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise ClusterError(f"{node}: exit {done.returncode}\n{script}\n{done.stderr}")
    return done.stdout
