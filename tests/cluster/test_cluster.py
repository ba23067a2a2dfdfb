"""The test bed itself: it boots, its nodes are a cluster, each fault is there and is undone, and nothing of it stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.helpers.cluster import Cluster, ClusterError, faults
from tests.helpers.places import ROOT
from tests.helpers.waiting import DEADLINE, long_enough, soon, wait_for

SSH = "ssh -o BatchMode=yes -o ConnectTimeout=1"


def said(cluster: Cluster, node: str, script: str, user: str = "root") -> str:
    """What a script says on a node, stderr included, whatever its exit status."""
    done = cluster.sh(node, f"{{ {script}; }} 2>&1", user)
    return done.stdout.strip()


@pytest.fixture(params=["sshfs_cluster", "nfs_cluster"])
def served(request: pytest.FixtureRequest) -> Cluster:
    cluster: Cluster = request.getfixturevalue(request.param)
    return cluster


# -- a cluster ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["root", "alice"])
def test_a_user_reaches_every_node_by_ssh(cluster: Cluster, user: str) -> None:
    script = f"for node in {' '.join(cluster.names)}; do {SSH} $node 'hostname; id -un'; done"
    assert said(cluster, "login", script, user).split() == [word for node in cluster.names for word in (node, user)]


def test_slurm_runs_a_step_on_all_nodes(cluster: Cluster) -> None:
    assert sorted(said(cluster, "login", "srun -N3 hostname", "alice").split()) == ["c1", "c2", "c3"]


def test_nodes_have_nothing_of_the_hosts_environment_nor_homes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKED", "yes")
    for node in cluster.names:
        assert "LEAKED" not in cluster.exec(node, ["env"]).stdout
    assert "LEAKED" not in said(cluster, "login", "srun -w c1 env")
    assert said(cluster, "c1", "find /root -maxdepth 1 -type f | sort") == "/root/.bashrc\n/root/.profile"
    # A checkout that lies in /tmp is shown there; nothing else of the host's is.
    ours = {path.parts[2] for path in (ROOT, Path(sys.prefix)) if path.parts[:2] == ("/", "tmp")}
    assert set(said(cluster, "c1", "ls -A /tmp").split()) <= ours


def test_envmgr_runs_on_the_login_node_as_root_and_as_the_build_user(cluster: Cluster) -> None:
    for user in ("root", "rsw"):
        assert re.fullmatch(r"envmgr \S+\n", cluster.envmgr(["--version"], user=user).stdout)


@pytest.mark.parametrize("kind", ["cluster", "sshfs_cluster", "nfs_cluster"])
def test_every_node_sees_what_the_build_user_writes(kind: str, request: pytest.FixtureRequest) -> None:
    cluster: Cluster = request.getfixturevalue(kind)
    cluster.sh("login", f"echo new >{cluster.prefix}/seen", user="rsw", check=True)
    try:
        for node in ("login", *cluster.compute):
            assert said(cluster, node, f"cat {cluster.prefix}/seen; stat -c %U {cluster.prefix}/seen") == "new\nrsw"
        assert (cluster.host_prefix / "seen").read_text() == "new\n"
        writable = said(cluster, "c1", f"test -w {cluster.prefix} && echo yes")
        assert writable == ("" if kind == "sshfs_cluster" else "yes")
    finally:
        cluster.sh("login", f"rm {cluster.prefix}/seen", check=True)


def test_a_command_that_takes_too_long_is_killed(cluster: Cluster) -> None:
    def killed(limit: float) -> None:
        with pytest.raises(subprocess.TimeoutExpired):
            cluster.sh("c1", "touch /run/begun; exec sleep 1277", timeout=limit)

    long_enough(killed, lambda _: cluster.sh("c1", "rm /run/begun").returncode == 0)
    until_same(lambda: "sleep 1277" in cluster.processes("c1"), want=False)  # dies a moment after the signal
    with pytest.raises(ClusterError, match=r"c1: \['false'\]: exit 1"):
        cluster.exec("c1", ["false"], check=True)


# -- its faults --------------------------------------------------------------------------------------------------------

# A fault of c1, what then is asked where, what is found, and what is found before and after.
FAULTS: dict[str, tuple[Callable[..., AbstractContextManager[None]], str, str, str, str]] = {
    "unmounted": (faults.unmounted, "c1", "grep -c ' /cluster/sw ' /proc/self/mountinfo", "0", "1"),
    "read_only": (
        faults.read_only,
        "c1",
        "touch /cluster/sw/x && rm /cluster/sw/x && echo fine",
        ".*Read-only.*",
        "fine",
    ),
    "old_copy": (faults.old_copy, "c1", "stat -f -c %T /cluster/sw", "tmpfs", "(?!tmpfs).*"),
    "shadowed_file": (
        lambda c, n: faults.shadowed_file(c, n, "/etc/lmod/modulespath", "other\n"),
        "c1",
        "cat /etc/lmod/modulespath; stat -c '%U %a' /etc/lmod/modulespath",
        "other\nroot 644",
        "#.*\nroot 644",
    ),
    "slow_link": (faults.slow_link, "c1", "tc qdisc show dev eth0", ".* tbf .* rate 1Mbit .*", ".*noqueue.*"),
    "frozen_node": (faults.frozen_node, "login", f"{SSH} c1 hostname", ".*timed out.*", "c1"),
    "sshd_stopped": (faults.sshd_stopped, "login", f"{SSH} c1 hostname", "ssh: .* Connection refused", "c1"),
    "slurmd_stopped": (
        lambda c, n: faults.slurmd_stopped(c, n, noticed=True),
        "login",
        "sinfo -h -n c1 -o %T; srun -w c1 --immediate=1 hostname",
        "down\nsrun: error: .*",
        "idle\nc1",
    ),
    "changed_host_key": (
        faults.changed_host_key,
        "login",
        f"{SSH} c1 hostname",
        ".*Host key verification failed.*",
        "c1",
    ),
    "banner": (
        faults.banner,
        "login",
        f"su alice -c \"{SSH} c1 'bash -lc true; csh -c hostname'\"",
        "(Welcome to the cluster!\n){4,}c1",
        "c1",
    ),
    "other_lmod": (
        faults.other_lmod,
        "c1",
        "bash -lc 'module --version; echo $LMOD_VERSION'",
        r".*Version 8\.7\.19 .*\b8\.7\.19",
        "(?!.*8.7.19).*Version .*",
    ),
    "fake_driver": (
        lambda c, n: faults.fake_driver(c, n, "450.51.06", compute_capability="7.5"),
        "c1",
        "cat /sys/module/nvidia/version; nvidia-smi --query-gpu=compute_cap,driver_version --format=csv,noheader",
        "450.51.06\n7.5, 450.51.06",
        "cat: .*: No such file or directory\n.*not found",
    ),
    "fake_cpu": (
        faults.fake_cpu,
        "c1",
        "grep -m1 -ow sse4_2 /proc/cpuinfo; grep -m1 -ow sse2 /proc/cpuinfo",
        "sse2",
        "sse4_2\nsse2",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_its_effect_and_is_undone(cluster: Cluster, name: str) -> None:
    fault, node, script, inside, outside = FAULTS[name]
    before = [cluster.processes(n) for n in ("c1", "c2")]
    with fault(cluster, "c1"):
        found = said(cluster, node, script)
        assert re.fullmatch(inside, found, re.DOTALL), found
        other = "c2" if node == "c1" else node
        assert re.fullmatch(outside, said(cluster, other, script.replace("c1", "c2")).replace("c2", "c1"), re.DOTALL)
    found = said(cluster, node, script)
    assert re.fullmatch(outside, found, re.DOTALL), found
    until_same(lambda: [sorted(cluster.processes(n)) for n in ("c1", "c2")], [sorted(lines) for lines in before])


def until_same(ask: Callable[[], object], want: object) -> None:
    """What ends, a connection of a test or a process that was killed, is seen for a moment more."""
    assert soon(lambda: ask() == want), ask()


def test_an_old_copy_does_not_have_what_comes_later(cluster: Cluster) -> None:
    with faults.old_copy(cluster, "c1"):
        cluster.sh("login", f"touch {cluster.prefix}/later", user="rsw", check=True)
        seen = ["later" in said(cluster, node, f"ls {cluster.prefix}").split() for node in ("c1", "c2")]
        cluster.sh("login", f"rm {cluster.prefix}/later", check=True)
    assert seen == [False, True]


def test_a_dead_node_does_not_answer_and_comes_back(cluster: Cluster) -> None:
    with faults.dead_node(cluster, "c1"):
        assert "Connection timed out" in said(cluster, "login", f"{SSH} c1 true")
        with pytest.raises(ClusterError, match="c1 is dead"):
            cluster.exec("c1", ["true"])
    assert said(cluster, "login", f"{SSH} c1 hostname; srun -w c1 hostname") == "c1\nc1"


def test_a_hung_mount_hangs_one_node_and_comes_back(served: Cluster) -> None:
    touch = f"stat -c %F {served.prefix}/."
    with faults.hung(served, "c1"):
        process = served.start("c1", ["stat", f"{served.prefix}/nothing"])
        wait_for(lambda: any("/nothing" in line for line in served.processes("c1")), what="stat on c1")
        assert said(served, "c2", touch) == "directory"
        assert process.poll() is None
    process.communicate(timeout=DEADLINE)


def test_a_hung_server_hangs_all_clients_and_comes_back(served: Cluster) -> None:
    with faults.server_hung(served):
        waiting = [served.start(node, ["stat", f"{served.prefix}/nothing-{node}"]) for node in served.compute]
        for node in served.compute:
            wait_for(lambda node=node: any("/nothing" in p for p in served.processes(node)), what=f"stat on {node}")  # type: ignore[misc]
        assert [process.poll() for process in waiting] == [None] * 3
    for process in waiting:
        assert "No such file" in process.communicate(timeout=DEADLINE)[1]


def test_a_fault_of_a_served_mount_is_undone(served: Cluster) -> None:
    with faults.unmounted(served, "c1"):
        assert said(served, "c1", "grep -c ' /cluster/sw ' /proc/self/mountinfo") == "0"
    with faults.dead_node(served, "fs1"):
        pass
    for node in served.compute:
        assert (
            said(served, node, f"stat -c %F {served.prefix}; grep -c ' - fuse' /proc/self/mountinfo") == "directory\n1"
        )


def test_a_bind_mount_is_not_said_to_hang(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="c1: a bind mount cannot hang"), faults.hung(cluster, "c1"):
        pass


# -- its end -----------------------------------------------------------------------------------------------------------


def traces(folder: Path) -> list[str]:
    """Processes that belong to the cluster in `folder`, or have one of its mounts; the host's mounts and links."""
    found = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            texts = (process / "cmdline").read_bytes() + (process / "mountinfo").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in texts and int(process.name) != os.getpid():
            found.append(process.name)
    return found


OWNER = """
    import sys, time
    from pathlib import Path
    from tests.helpers.cluster import Cluster
    cluster = Cluster(Path(sys.argv[1]), nodes=1, share="nfs")
    cluster.up()
    print("up", flush=True)
    time.sleep(1200)
"""


def test_two_clusters_at_once_do_not_meet_and_the_second_leaves_nothing(cluster: Cluster, tmp_path: Path) -> None:
    links = set(Path("/sys/class/net").iterdir())
    second = Cluster(tmp_path / "second", nodes=1)
    second.up()
    try:
        second.write("c1", "/etc/mark", "second")
        assert said(second, "login", f"{SSH} c1 cat /etc/mark") == "second"
        assert "No such file" in said(cluster, "login", f"{SSH} c1 cat /etc/mark")
        assert set(Path("/sys/class/net").iterdir()) == links
        assert traces(second.folder) != []
    finally:
        second.down()
    assert traces(second.folder) == []
    assert not second.folder.exists()
    assert said(cluster, "login", "srun -w c1 hostname") == "c1"


def test_nothing_runs_on_when_the_owner_is_killed_while_a_mount_hangs(cluster_possible: None, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), folder], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        assert len(traces(folder)) > 10
        pid = (folder / "pids/c1").read_text().strip()
        client = (Path(f"/proc/{pid}/root/run/cluster-share.pid")).read_text().strip()
        node = ["nsenter", "-t", pid, "-p", "-m", "-r", "sh", "-c"]
        subprocess.run([*node, f"kill -STOP {client}; stat /cluster/sw/nothing >/dev/null 2>&1 &"], check=True)
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    until_same(lambda: traces(folder), [])
