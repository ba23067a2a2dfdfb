"""Shells and jobs of nodes that cannot see the prefix, by real sshd, srun and sbatch: each says so once, where it is read."""

from __future__ import annotations

import shlex

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.cluster.faults import hung, unmounted
from tests.helpers.cluster.node_setup import set_up

SCRIPTS = ("/bin/bash", "/bin/sh", "/bin/bash -l", "/bin/csh", "/bin/tcsh", "/usr/bin/zsh", "/usr/bin/fish")
BACK = "module load hello; echo $HELLO"


def said(text: str) -> list[str]:
    return [line for line in text.splitlines() if "envmgr: " in line]


def at_terminal(cluster: Cluster, command: str) -> str:
    """All that a person reads who types it on the login node."""
    return cluster.sh("login", f"script -qc {shlex.quote(command)} /dev/null </dev/null", "alice").stdout


def job_log(cluster: Cluster, shell: str) -> str:
    """The log of a batch script that loads a module; it begins two further shells."""
    text = f"#!{shell}\necho on\nmodule load hello\nbash -lc true\nbash -lc true\n"
    cluster.write("login", "/tmp/away.sh", text, mode=0o755)
    send = "sbatch -W -w c1 -o /tmp/away.log --export=NONE /tmp/away.sh"
    cluster.sh("login", f"cd /tmp; {send}", "alice")
    return cluster.sh("c1", "cat /tmp/away.log; rm -f /tmp/away.log", check=True).stdout


def interactive(cluster: Cluster) -> list[str]:
    """What a person reads in shells below another one, on c1."""
    inner = shlex.quote("module load hello")
    return [
        at_terminal(cluster, f"srun -w c1 --pty bash -ic {inner}"),
        at_terminal(cluster, f"ssh -tt c1 {shlex.quote(f'bash -ic {inner}')}"),
        at_terminal(cluster, f"ssh -tt c1 {shlex.quote(f'bash -lic {inner}')}"),
    ]


def test_unmounted_prefix_is_told_in_each_shell_and_log_and_to_no_tool(cluster: Cluster) -> None:
    text = f"{cluster.prefix} is empty on c1: it is not mounted there, or nothing was published"
    with set_up(cluster):
        with unmounted(cluster, "c1"):
            for read in interactive(cluster):
                told = f"envmgr: {text}. This shell has none of its modules; a new one looks again."
                assert [line.lstrip("^@\b") for line in said(read)] == [told], read
                assert f"does not know hello. When it started, {text}" in " ".join(read.split())
                assert "spelling" not in read
            for shell in SCRIPTS:
                log = job_log(cluster, shell)
                told = f"envmgr: {text}. This job has none of its modules; a new one looks again."
                assert said(log) == [told], (shell, log)
                assert log.splitlines()[1] == "on"
                assert text in " ".join(log.split("on\n", 1)[1].split()), (shell, log)  # by `module`
            done = cluster.sh("login", "echo data >/tmp/away.data; scp -q /tmp/away.data c1:/tmp/away.copy", "alice")
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
            done = cluster.sh("login", "ssh c1 cat /tmp/away.copy; srun -w c1 echo step", "alice")
            assert (done.stdout, done.stderr) == ("data\nstep\n", "")
        assert cluster.sh("login", f"ssh c1 '{BACK}'", "alice").stdout == "yes\n"


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/csh"])
def test_hung_prefix_is_told_in_each_shell_and_log_and_drains_no_node(sshfs_cluster: Cluster, shell: str) -> None:
    cluster = sshfs_cluster
    text = f"{cluster.prefix} does not answer on c1"
    with set_up(cluster):
        with hung(cluster, "c1"):
            for read in interactive(cluster):
                told = f"envmgr: {text}. This shell has none of its modules; a new one looks again."
                assert [line.lstrip("^@\b") for line in said(read)] == [told], read
                assert f"does not know hello. When it started, {text}" in " ".join(read.split())
            log = job_log(cluster, shell)
            assert said(log) == [f"envmgr: {text}. This job has none of its modules; a new one looks again."], log
            assert text in " ".join(log.split("on\n", 1)[1].split()), log
            done = cluster.sh("login", "ssh c1 echo data; srun -w c1 echo step", "alice")
            assert (done.stdout, done.stderr) == ("data\nstep\n", "")
        cluster.wait_idle()
        assert cluster.sh("login", f"ssh c1 '{BACK}'", "alice").stdout == "yes\n"
