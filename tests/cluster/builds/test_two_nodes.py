"""Two builders of one item on two nodes, over a shared file system: with locks that nodes share, and with locks that they do not.

The cluster that shares a folder has the first kind, as NFS of the kernel has; the test bed's NFS client, in user space, the second.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.cluster.site import SITE
from tests.helpers.easybuild.workshop import TOY_MAKEFILE, Workshop
from tests.helpers.waiting import DEADLINE, wait_for

GATE = "/cluster/sw/gate"
WAITS = TOY_MAKEFILE.replace("\tcc -O2", f"\twhile [ ! -e {GATE} ]; do sleep 0.1; done\n\tcc -O2")


@pytest.fixture
def shared(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    yield from prepared(cluster, tmp_path)


@pytest.fixture
def shared_without_locks(nfs_cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    yield from prepared(nfs_cluster, tmp_path)


def prepared(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """`toy/1.0` is locked; every node has the site, the recipe and the easyconfig, and the prefix is shared."""
    cluster.empty_prefix(owner="rsw")
    box = Workshop(tmp_path, "")
    easyconfig = box.toy(files={"Makefile": WAITS})
    shutil.copytree(tmp_path / "mirror", cluster.host_prefix / "mirror", dirs_exist_ok=True)
    cluster.write_site(easyconfigs=["easyconfigs"], sources={"mirrors": ["/cluster/sw/mirror"], "upstream": False})
    cluster.write("login", SITE.parent / easyconfig.relative_to(tmp_path), easyconfig.read_text())
    cluster.recipe("toy/1.0", [], backend="easybuild", input={"easyconfig": "toy-1.0.eb"})
    done = cluster.envmgr(["lock", "toy/1.0"])
    assert done.code == 0, done.stderr
    for path in cluster.exec("login", ["find", str(SITE.parent), "-type", "f"], check=True).stdout.split():
        for node in ("c1", "c2"):
            cluster.write(node, path, cluster.exec("login", ["cat", path], check=True).stdout)
    yield cluster
    for name in ("easybuild", "mirror", "gate", "store/toy"):
        cluster.exec("fs1", ["rm", "-rf", f"/export/sw/{name}"])
    for node in ("c1", "c2"):
        cluster.exec(node, ["rm", "-rf", str(SITE.parent)])
    cluster.exec("login", ["rm", "-rf", f"{SITE.parent}/recipes/toy", f"{SITE.parent}/easyconfigs"])


def start(cluster: Cluster, node: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "envmgr", "build", "toy/1.0"]
    return cluster.start(node, argv, env={"ENVMGR_SITE": str(SITE)})


def compiles(cluster: Cluster, node: str) -> bool:
    return any(GATE in line and "sh -c" in line for line in cluster.processes(node))


def test_second_builder_waits_and_takes_over_when_the_first_node_s_build_is_killed(shared: Cluster) -> None:
    first = start(shared, "c1")
    wait_for(lambda: compiles(shared, "c1"), what="the compiler on c1")
    second = start(shared, "c2")
    assert second.stderr is not None
    said = next(line for line in second.stderr if "waiting for" in line)
    assert re.fullmatch(r"toy/1\.0: waiting for process \d+ on c1 since \S+, which builds it\n", said)
    assert not compiles(shared, "c2")
    shared.sh("c1", "pkill -KILL -f 'envmgr build'", check=True)
    first.communicate(timeout=DEADLINE)
    wait_for(lambda: not compiles(shared, "c1"), what="the end of the compiler on c1")
    wait_for(lambda: compiles(shared, "c2"), what="the compiler on c2")
    (shared.host_prefix / "gate").touch()
    out, err = second.communicate(timeout=DEADLINE)
    assert second.returncode == 0, err
    assert re.search(r"^toy/1\.0: built ", out, re.MULTILINE)
    assert len(list(shared.host_prefix.glob("store/toy/*.manifest.json"))) == 1
    assert list(shared.host_prefix.glob("var/jobs/*.json")) == []
    assert list(shared.host_prefix.glob("var/jobs/easybuild-locks/*")) == []


def test_second_builder_waits_and_takes_what_the_first_made_where_locks_are_not_shared(
    shared_without_locks: Cluster,
) -> None:
    """Both get the lock of the file system; the mark beside it, which the server gave to one of them, says who builds."""
    cluster = shared_without_locks
    first = start(cluster, "c1")
    wait_for(lambda: compiles(cluster, "c1"), what="the compiler on c1")
    second = start(cluster, "c2")
    assert second.stderr is not None
    said = next((line for line in second.stderr if "waiting for" in line), "nothing")
    assert re.fullmatch(r"toy/1\.0: waiting for process \d+ on c1 since \S+, which builds it\n", said)
    assert compiles(cluster, "c1")
    assert not compiles(cluster, "c2")
    (cluster.host_prefix / "gate").touch()
    out, err = first.communicate(timeout=DEADLINE)
    assert first.returncode == 0, err
    assert re.search(r"^toy/1\.0: built ", out, re.MULTILINE)
    out, err = second.communicate(timeout=DEADLINE)
    assert second.returncode == 0, err
    assert not re.search(r"^toy/1\.0: built ", out, re.MULTILINE)
    assert len(list(cluster.host_prefix.glob("store/toy/*.manifest.json"))) == 1
