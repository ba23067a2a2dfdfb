"""The quick start is typed on a real cluster that has nothing of envmgr, to a job's output, and back to nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.pages import NUMPY, Typist, spoken, to_type
from tests.helpers.places import CACHE
from tests.helpers.standin.wheels import fetch_wheels
from tests.helpers.wheelhouse import Wheelhouse

INDEX = """\
  wheels: {indexes: {pypi: {url: "file:///srv/index/simple"}}}
"""


@pytest.fixture
def fresh(own_cluster: Cluster) -> Cluster:
    """A cluster on which nobody ever heard of envmgr, apart from the program. A local index stands in for the public one."""
    cluster = own_cluster
    cluster.put_envmgr_on_path()
    house = Wheelhouse(Path(f"/proc/{cluster.pid('login')}/root/srv/index"))
    fetch_wheels([NUMPY], CACHE / "wheels")
    house.add(*(CACHE / "wheels").glob(f"numpy-{NUMPY.version}-*"))
    return cluster


def test_quick_start_is_typed_from_nothing_to_a_job_and_back(fresh: Cluster) -> None:
    before = state(fresh)
    typist = Typist(fresh, spoken)
    for block in to_type("docs/quickstart.md"):
        typist.type(block)
        if any("envmgr init" in line for line in block.lines):  # the public index is not reachable from here
            fresh.sh("login", f"sed -i '/^backends:/a\\{INDEX.rstrip()}' /etc/envmgr/site.yaml", check=True)
        if "TaskProlog=" in str(block.lines):
            fresh.wait_idle()
    assert state(fresh) == before


def state(cluster: Cluster) -> dict[str, list[str]]:
    """What lies in /etc of every node, by sha256, and what the prefix has. Backups of passwd and the like are useradd's own."""
    script = r"""
        cd / && find etc cluster/sw usr/local/bin ! -name '*-' \( -type f -exec sha256sum {} + -o -printf '%p %l\n' \) | sort
        find run var/lib -name '*envmgr*'
    """
    return {node: cluster.sh(node, script).stdout.splitlines() for node in cluster.names}
