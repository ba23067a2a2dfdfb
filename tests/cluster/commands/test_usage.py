"""`envmgr usage` on a real cluster: a real rsyslogd on each node, loads over ssh and in jobs, each node's own log or one log of all."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.waiting import DEADLINE

LOG = "/var/log/usage/syslog"
CONF = """\
module(load="imuxsock")
{more}
template(name="line" type="string" string="%timestamp:::date-rfc3339% %hostname% %syslogtag%%msg%\\n")
action(type="omfile" file="{log}" template="line")
"""
FORWARD = 'action(type="omfwd" target="login" port="10514" protocol="tcp")'
RECEIVE = 'module(load="imtcp")\ninput(type="imtcp" port="10514")'


def start_syslog(cluster: Cluster, node: str, more: str = "") -> None:
    cluster.write(node, "/etc/usage.conf", CONF.format(more=more, log=LOG))
    stop = "[ ! -e /run/usage.pid ] || kill $(cat /run/usage.pid); while [ -e /run/usage.pid ]; do sleep 0.1; done"
    cluster.sh(node, f"{stop}; mkdir -p /var/log/usage; rsyslogd -f /etc/usage.conf -i /run/usage.pid", check=True)
    cluster.sh(node, "until [ -S /dev/log ]; do sleep 0.1; done", check=True)


@pytest.fixture(scope="module")
def lab(own_cluster: Cluster) -> Cluster:
    cluster = own_cluster
    cluster.empty_prefix("rsw")
    write_site(cluster)
    cluster.recipe("zlib/1.3", ["hello-prefix"])
    cluster.recipe("hello/1.0", ["hello-prefix"], depends=["zlib/1.3"])
    for argv in (["lock", "zlib/1.3", "hello/1.0"], ["build", "zlib/1.3", "hello/1.0"]):
        done = cluster.envmgr(argv)
        assert done.code == 0, done.stdout + done.stderr
    done = cluster.envmgr(["node-setup", "--apply", "--nodes", "login,c[1-3]"])
    assert done.code == 0, done.stdout + done.stderr
    for node in ("login", *cluster.compute):
        start_syslog(cluster, node)
    return cluster


def write_site(cluster: Cluster, **more: Any) -> None:
    cluster.write_site(login_nodes="login", usage={"on": True, "logs": [f"{LOG}*"], **more})


def use(cluster: Cluster, code: int = 0) -> dict[str, Any]:
    done = cluster.envmgr(["usage", "--format", "json"])
    assert done.code == code, done.stdout + done.stderr
    found: dict[str, Any] = done.data
    return found


def counts(data: dict[str, Any]) -> dict[str, tuple[int, dict[str, int], int]]:
    return {row["entry"]: (row["own"], row["by"], row["jobs"]) for row in data["entries"]}


@pytest.mark.always
def test_loads_of_users_and_jobs_on_all_nodes_are_counted(lab: Cluster) -> None:
    """envmgr's own tests on nodes and its audit are no use. The log of a node that was silent is read the next time."""
    assert counts(use(lab)) == {"zlib/1.3": (0, {}, 0), "hello/1.0": (0, {}, 0)}
    lab.exec("login", ["ssh", "c1", "bash -lc 'module load hello'"], user="alice", check=True)
    lab.sh("login", "srun -w c2 bash -lc 'module load hello'", "alice", check=True)
    lab.write("login", "/home/alice/job.sh", "#!/bin/bash -l\nmodule load hello\n", 0o755)
    lab.sh("login", "cd; sbatch -W -w c3 job.sh", "alice", check=True)
    assert lab.envmgr(["test", "hello/1.0", "--nodes", "c[1-3]"]).code == 0
    lab.envmgr(["audit", "--nodes", "c[1-3]"])
    data = use(lab)
    assert counts(data) == {"zlib/1.3": (0, {"hello/1.0": 3}, 2), "hello/1.0": (3, {}, 2)}
    assert (data["nodes"], data["unread"]) == ("c[1-3],login", [])
    lab.sh("c2", "kill $(cat /run/usage.pid); while [ -e /run/usage.pid ]; do sleep 0.1; done", check=True)
    lab.exec("login", ["ssh", "c1", "bash -lc 'module load zlib'"], user="alice", check=True)
    lab.exec("login", ["ssh", "c2", "bash -lc 'module load zlib'"], user="alice", check=True)
    data = use(lab, 3)
    assert counts(data)["zlib/1.3"] == (1, {"hello/1.0": 3}, 2)
    assert data["unread"] == [{"nodes": "c2", "reason": "its syslog takes no message: there is no socket /dev/log"}]
    start_syslog(lab, "c2")
    lab.exec("login", ["ssh", "c2", "bash -lc 'module load zlib'"], user="alice", check=True)
    assert counts(use(lab))["zlib/1.3"] == (2, {"hello/1.0": 3}, 2)
    refused = lab.envmgr(["gc", "--unused-for", "30d"])
    assert (refused.code, "error[usage-unknown]" in refused.stderr) == (3, True)
    owner = lab.sh("login", f"stat -c %U {lab.prefix}/var/usage/usage.json").stdout.strip()
    assert owner == "rsw"


def test_one_log_of_all_nodes_is_read_on_the_host_that_has_it(lab: Cluster) -> None:
    """rsyslogd of the nodes sends what it gets to login. A node that does not is named."""
    lab.sh("login", f"rm -rf {lab.prefix}/var/usage", check=True)
    for node in ("login", *lab.compute):
        lab.sh(node, f": >{LOG}")
        start_syslog(lab, node, RECEIVE if node == "login" else FORWARD)
    write_site(lab, host="login")
    assert counts(use(lab))["hello/1.0"] == (0, {}, 0)
    for node in ("c1", "c2", "c2"):
        lab.exec("login", ["ssh", node, "bash -lc 'module load hello'"], user="alice", check=True)
    until = time.monotonic() + DEADLINE
    while lab.sh("login", f"grep -c 'load 1 hello' {LOG}").stdout.strip() != "3":
        assert time.monotonic() < until
    assert counts(use(lab))["hello/1.0"] == (3, {}, 0)
    start_syslog(lab, "c3")
    lab.exec("login", ["ssh", "c1", "bash -lc 'module load hello'"], user="alice", check=True)
    data = use(lab, 3)
    assert data["unread"] == [{"nodes": "c3", "reason": "its mark did not arrive in the log"}]
    assert counts(data)["hello/1.0"] == (4, {}, 0)
