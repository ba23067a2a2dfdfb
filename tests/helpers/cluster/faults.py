"""What goes wrong on clusters, one context manager each: the fault is there inside, and exactly undone after.

Nothing of a node's own is overwritten where it can be covered by a mount, so that undoing cannot miss anything.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.helpers.cluster import config
from tests.helpers.cluster.cluster import Cluster
from tests.helpers.cluster.disguises import (
    V2_FLAGS,
    V3_FLAGS,
    V4_FLAGS,
    count,
    do,
    fake_cpu,
    fake_driver,
    other_lmod,
    prefixed,
    shadowed_file,
)
from tests.helpers.waiting import wait_for

__all__ = [
    "OFF",
    "V2_FLAGS",
    "V3_FLAGS",
    "V4_FLAGS",
    "banner",
    "changed_host_key",
    "dead_node",
    "fake_cpu",
    "fake_driver",
    "frozen_node",
    "hung",
    "old_copy",
    "other_lmod",
    "read_only",
    "restart_sshd",
    "server_hung",
    "shadowed_file",
    "slow_link",
    "slurmctld_stopped",
    "slurmd_stopped",
    "sshd_stopped",
    "unmounted",
]


# -- the prefix --------------------------------------------------------------------------------------------------------


@contextmanager
def unmounted(cluster: Cluster, node: str) -> Iterator[None]:
    """The prefix is an empty folder of the node's own."""
    path = cluster.prefix
    if cluster.bound(node):  # what was bound cannot be seen any more from inside: keep it at hand
        do(cluster, node, f"install -d -m 700 /run/parked; mount --move {path} /run/parked")
        try:
            yield
        finally:
            do(cluster, node, f"mount --move /run/parked {path}")
        return
    do(cluster, node, f"umount -l {path}")
    try:
        yield
    finally:
        do(cluster, node, "cluster-share mount")


@contextmanager
def hung(cluster: Cluster, node: str) -> Iterator[None]:
    """A process that touches the prefix on this node waits, and cannot be killed; other nodes are well. Not with `bind`."""
    _needs_server(cluster, node)
    with _stopped(cluster, node, "$(cat /run/cluster-share.pid)"):
        yield
    do(cluster, node, f"stat {cluster.prefix}")


@contextmanager
def server_hung(cluster: Cluster) -> Iterator[None]:
    """A process that touches the prefix on any node waits, up to what the node's cache still answers. Not with `bind`."""
    _needs_server(cluster, "c1")
    with _stopped(
        cluster, "fs1", {"nfs": "$(cat /run/ganesha.pid)", "sshfs": "$(pgrep -x sftp-server)"}[cluster.share]
    ):
        yield
    for node in cluster.compute:
        do(cluster, node, f"stat {cluster.prefix}")


@contextmanager
def old_copy(cluster: Cluster, node: str) -> Iterator[None]:
    """The prefix is a local copy, made now: what is published later is not in it. Large folders in it are the real ones."""
    path, copy, large = cluster.prefix, f"/run/old-{next(count)}", "store cache"
    unreadable = "true" if cluster.share == "sshfs" else "false"  # compute nodes read there as an ordinary user
    do(
        cluster,
        node,
        f"""
        mkdir {copy}; chown --reference={path} {copy}; cd {path}
        for entry in $(ls -A); do
            case " {large} " in
            *" $entry "*) mkdir {copy}/$entry; mount --bind $entry {copy}/$entry ;;
            *) cp -a $entry {copy}/ || {unreadable} ;;
            esac
        done
        cd /; mount --rbind {copy} {path}""",
    )
    try:
        yield
    finally:
        do(
            cluster,
            node,
            f"""
            umount -l {path}
            for entry in {large}; do [ ! -d {copy}/$entry ] || umount -l {copy}/$entry; done
            rm -rf --one-file-system {copy}""",
        )


@contextmanager
def read_only(cluster: Cluster, node: str) -> Iterator[None]:
    before = _mount_options(cluster, node)
    words = ["ro", *(word for word in before.split(",") if word not in ("rw", "ro"))]
    do(cluster, node, f"mount -o remount,bind,{','.join(words)} {cluster.prefix}")
    try:
        yield
    finally:
        do(cluster, node, f"mount -o remount,bind,{before} {cluster.prefix}")


# -- the node and its services -----------------------------------------------------------------------------------------


@contextmanager
def slow_link(cluster: Cluster, node: str, rate: str = "1mbit") -> Iterator[None]:
    """Nothing goes to or from the node faster than `rate`, in tc's words; no more than two packets come at once."""
    shape = f"root tbf rate {rate} burst 3kb latency 10s"
    do(cluster, node, f"tc qdisc add dev eth0 {shape}")
    _holders_net(cluster, f"tc qdisc add dev v-{node} {shape}")
    try:
        yield
    finally:
        _holders_net(cluster, f"tc qdisc del dev v-{node} root")
        do(cluster, node, "tc qdisc del dev eth0 root")


OFF = ("Connection timed out", "No route to host")
"""What ssh says of a dead node: whichever limit is over first, ssh's own or the kernel's."""


@contextmanager
def dead_node(cluster: Cluster, node: str) -> Iterator[None]:
    """The node is off: its address does not answer. Undoing boots it with a fresh system disk: what was written there is lost."""
    os.kill(cluster.pid(node), signal.SIGKILL)
    wait_for(lambda: not cluster.alive(node), what=f"the end of {node}")
    # Its network goes some time later by itself; until then its kernel would refuse connections.
    _holders_net(cluster, f"ip link delete v-{node}", check=False)
    try:
        yield
    finally:
        cluster.boot(node)
        if node == "fs1" and cluster.share != "bind":  # what was mounted from it is dead
            for client in ("login", *cluster.compute):
                do(cluster, client, "cluster-share remount")
        _resume(cluster, node)


@contextmanager
def frozen_node(cluster: Cluster, node: str) -> Iterator[None]:
    """The kernel answers (a connection is accepted), and no process does."""
    with _stopped(cluster, node, "-1"):
        yield


@contextmanager
def sshd_stopped(cluster: Cluster, node: str) -> Iterator[None]:
    """Connections are refused. One that is open stays: a controlling master has to be ended first."""
    _stop(cluster, node, "/run/sshd.pid")
    try:
        yield
    finally:
        do(cluster, node, "/usr/sbin/sshd")


@contextmanager
def slurmd_stopped(cluster: Cluster, node: str, *, noticed: bool = False) -> Iterator[None]:
    """Slurm finds out after SlurmdTimeout (30 s); with `noticed` the node is down for it at once."""
    _stop(cluster, node, "/run/slurmd.pid")
    if noticed:
        do(cluster, "login", f"scontrol update nodename={node} state=down reason=slurmd-stopped")
    try:
        yield
    finally:
        do(cluster, node, "/usr/sbin/slurmd")
        _resume(cluster, node)


@contextmanager
def slurmctld_stopped(cluster: Cluster) -> Iterator[None]:
    """Slurm's commands get no answer; jobs that run go on."""
    _stop(cluster, "login", "/var/spool/slurmctld/slurmctld.pid")
    try:
        yield
    finally:
        do(
            cluster, "login", "setpriv --reuid slurm --regid slurm --clear-groups /usr/sbin/slurmctld -R"
        )  # -R: partitions, too
        wait_for(lambda: "UP" in cluster.exec("login", ["scontrol", "ping"]).stdout, what="slurmctld")


@contextmanager
def changed_host_key(cluster: Cluster, node: str) -> Iterator[None]:
    """The node is not the one that known_hosts knows."""
    new = f"/run/hostkey-{next(count)}"
    text = do(cluster, node, f"ssh-keygen -q -t ed25519 -N '' -f {new}; cat {new}; rm {new} {new}.pub")
    try:
        with shadowed_file(cluster, node, "/etc/ssh/ssh_host_ed25519_key", text):
            restart_sshd(cluster, node)
            yield
    finally:
        restart_sshd(cluster, node)


@contextmanager
def banner(cluster: Cluster, node: str, text: str = "Welcome to the cluster!\n") -> Iterator[None]:
    """Shells of every user say `text`: login shells, bash over ssh, csh; and sshd does before a login."""
    homes = [Path("/root"), *(Path("/home", user) for user in config.USERS)]
    files = [
        Path("/etc/profile"),
        Path("/etc/bash.bashrc"),
        Path("/etc/csh.cshrc"),
        *(home / ".bashrc" for home in homes),
    ]
    cluster.write(node, "/run/banner", text)
    try:
        with ExitStack() as stack:
            for path in files:
                stack.enter_context(prefixed(cluster, node, path, "cat /run/banner\n"))
            stack.enter_context(prefixed(cluster, node, Path("/etc/ssh/sshd_config"), "Banner /run/banner\n"))
            restart_sshd(cluster, node)
            yield
    finally:
        restart_sshd(cluster, node)
        do(cluster, node, "rm /run/banner")


# -- parts of them -----------------------------------------------------------------------------------------------------


def _needs_server(cluster: Cluster, node: str) -> None:
    if cluster.bound(node):
        raise ValueError(f"{node}: a bind mount cannot hang: use sshfs_cluster (compute nodes) or nfs_cluster")


@contextmanager
def _stopped(cluster: Cluster, node: str, ids: str) -> Iterator[None]:
    """`ids` in the words of the node's shell, which runs in the node's own PID namespace."""
    frozen = do(cluster, node, f"set -- {ids}; kill -STOP -- $*; echo $*")
    try:
        yield
    finally:
        do(cluster, node, f"kill -CONT -- {' '.join(frozen.split())}")


def _mount_options(cluster: Cluster, node: str) -> str:
    """The options of the mount itself, not of its file system: mountinfo's sixth field; empty when not mounted."""
    lines = [line.split() for line in do(cluster, node, "cat /proc/self/mountinfo").splitlines()]
    return next((fields[5] for fields in reversed(lines) if fields[4] == str(cluster.prefix)), "")


def _stop(cluster: Cluster, node: str, pidfile: str) -> None:
    do(cluster, node, f"pid=$(cat {pidfile}); kill $pid; while [ -e /proc/$pid ]; do sleep .02; done")


def _resume(cluster: Cluster, node: str) -> None:
    """Slurm takes the node back, if it had noticed."""
    if node in cluster.compute:
        cluster.exec("login", ["scontrol", "update", f"nodename={node}", "state=resume"])
        cluster.wait_idle()


def restart_sshd(cluster: Cluster, node: str) -> None:
    """So that it reads its files anew."""
    _stop(cluster, node, "/run/sshd.pid")
    do(cluster, node, "/usr/sbin/sshd")


def _holders_net(cluster: Cluster, command: str, *, check: bool = True) -> None:
    """Run a command where the bridge is: the other ends of the nodes' links."""
    argv = ["nsenter", "-t", str(cluster.holder), "-n", *command.split()]
    subprocess.run(argv, check=check, capture_output=True, env=config.CLEAN)
