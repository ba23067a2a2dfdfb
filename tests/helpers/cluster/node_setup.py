"""What `node-setup` puts on the nodes of a cluster, for as long as a test needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers.cluster.cluster import Cluster

CONF = "/etc/slurm/slurm.conf"
SNAPSHOT = "cd /etc && find . -type f -exec sha256sum {} + | sort; find . -printf '%p %m %U %l\\n' | sort"


@contextmanager
def set_up(cluster: Cluster) -> Iterator[str]:
    """The nodes with node-setup's files, a module, and the line in slurm.conf; the text that a shell is to print."""
    nodes = ["login", *cluster.compute]
    folded = f"login,c[1-{len(cluster.compute)}]"
    cluster.empty_prefix()
    cluster.write_site()
    module = "generations/0001/modules/hello/1.0.lua"
    cluster.sh(
        "fs1",
        f"""set -e; cd /export/sw; mkdir -p {module.rpartition("/")[0]}; ln -s generations/0001 current
echo 'setenv("HELLO", "yes")' >{module}; echo 'scDescriptT = {{}}' >generations/0001/lmodrc.lua""",
        check=True,
    )
    before = {node: cluster.sh(node, SNAPSHOT).stdout for node in nodes}
    try:
        done = cluster.envmgr(["node-setup", "--apply", "--nodes", folded])
        assert done.code == 0, done.stdout + done.stderr
        for node in nodes:
            cluster.sh(node, f"echo TaskProlog=/etc/envmgr/node/task-prolog >>{CONF}", check=True)
        cluster.exec("login", ["scontrol", "reconfigure"], check=True)
        pin = f"{cluster.prefix}/generations/0001"
        yield f"yes {pin} {pin}/modules:/etc/lmod/modules:/usr/share/lmod/lmod/modulefiles"
    finally:
        for node in nodes:
            cluster.sh(node, f"sed '/^TaskProlog/d' {CONF} >/tmp/conf && cat /tmp/conf >{CONF}; rm /tmp/conf")
        cluster.exec("login", ["scontrol", "reconfigure"])
        done = cluster.envmgr(["node-setup", "--apply", "--undo", "--nodes", folded])
        cluster.empty_prefix()
    assert done.code == 0, done.stdout + done.stderr
    assert {node: cluster.sh(node, SNAPSHOT).stdout for node in nodes} == before
