"""`envmgr usage` on a real cluster: rsyslogd on each node sends to one log, as docs/usage.md has it; loads over ssh and in jobs."""

from __future__ import annotations

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.pages import blocks
from tests.helpers.waiting import wait_for

LOG = "/var/log/envmgr.log"


def start_syslog(cluster: Cluster, node: str, *rules: str) -> None:
    cluster.write(node, "/etc/usage.conf", "\n".join(('module(load="imuxsock")', *rules, "")))
    cluster.sh(
        node, "rsyslogd -f /etc/usage.conf -i /run/usage.pid; until [ -S /dev/log ]; do sleep 0.1; done", check=True
    )


@pytest.mark.always
def test_loads_of_users_and_jobs_on_all_nodes_are_counted(own_cluster: Cluster) -> None:
    """envmgr's own tests on nodes and its audit do not count."""
    cluster = own_cluster
    cluster.empty_prefix("rsw")
    cluster.write_site(login_nodes="login", usage=True)
    cluster.recipe("zlib/1.3", ["hello-prefix"])
    cluster.recipe("hello/1.0", ["hello-prefix"], depends=["zlib/1.3"])
    for argv in (
        ["lock", "zlib/1.3", "hello/1.0"],
        ["build", "zlib/1.3", "hello/1.0"],
        ["node-setup", "--apply", "--nodes", "login,c[1-3]"],
    ):
        done = cluster.envmgr(argv)
        assert done.code == 0, done.stdout + done.stderr
    sends, keeps = (text for each in blocks("docs/usage.md") if "action(" in (text := "\n".join(each.lines)))
    start_syslog(cluster, "login", keeps)
    for node in cluster.compute:
        start_syslog(cluster, node, sends.replace("loghost", "login"))
    cluster.exec("login", ["ssh", "c1", "bash -lc 'module load hello'"], user="alice", check=True)
    cluster.sh("login", "srun -w c2 bash -lc 'module load hello'", "alice", check=True)
    cluster.write("login", "/home/alice/job.sh", "#!/bin/bash -l\nmodule load hello\n", 0o755)
    cluster.sh("login", "cd; sbatch -W -w c3 job.sh", "alice", check=True)
    assert cluster.envmgr(["test", "hello/1.0", "--nodes", "c[1-3]"]).code == 0
    cluster.envmgr(["audit", "--nodes", "c[1-3]"])
    cluster.exec("login", ["bash", "-lc", "module load zlib"], user="alice", check=True)
    # The log host's own loads come last, and each other one has come by then.
    wait_for(lambda: cluster.sh("login", f"grep -c 'load 1' {LOG}").stdout == "7\n", what="the loads to arrive")
    rows = cluster.envmgr(["usage", LOG, "--format", "json"]).data["entries"]
    counts = {row["entry"]: (row["own"], row["by"], row["jobs"]) for row in rows}
    assert counts == {"zlib/1.3": (1, {"hello/1.0": 3}, 2), "hello/1.0": (3, {}, 2)}
