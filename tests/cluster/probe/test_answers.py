"""Nodes that answer badly, and audits that are disturbed: nothing is believed that was not said whole, and nothing stays behind."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster.disguises import do, file_on, prefixed
from tests.helpers.cluster.faults import restart_sshd
from tests.helpers.waiting import DEADLINE, HANGS, long_enough, soon, wait_for

pytestmark = pytest.mark.xdist_group("audited")


@contextmanager
def answering(audited: Audited, node: str, script: str) -> Iterator[None]:
    """sshd on this node runs `script` whatever command it is given."""
    cluster = audited.cluster
    cluster.write(node, "/run/forced", f"#!/bin/bash\n{script}\n", 0o755)
    try:
        with prefixed(cluster, node, Path("/etc/ssh/sshd_config"), "ForceCommand /run/forced\n"):
            restart_sshd(cluster, node)
            yield
    finally:
        restart_sshd(cluster, node)
        # sshd leaves what it has started: whole sessions of it end.
        do(
            cluster,
            node,
            "for pid in $(pgrep -f '^/bin/bash [/]run/forced'); do pkill -KILL -s $pid || :; done; rm /run/forced",
        )


def one(audited: Audited, *argv: str) -> tuple[str, str, str]:
    """(nodes, where, found) of the only finding; what else a node would say has no part in it."""
    ((severity, check, nodes, where, found),) = audited.findings("--via", "ssh", "--check", "nodes", *argv, code=1)
    assert (severity, check) == ("error", "nodes")
    return nodes, where, found


def found_with(audited: Audited, option: str, limit: float) -> list[tuple[str, ...]]:
    return [*audited.findings("--via", "ssh", "--check", "nodes", option, f"{limit:g}", code=1)]


def alone(given: tuple[str, list[tuple[str, ...]]]) -> bool:
    """Whether c2 is the only one that did not answer within the limit."""
    return [nodes for _, _, nodes, *_ in given[1]] == ["c2"]


def test_garbage(audited: Audited) -> None:
    with answering(audited, "c2", "cat >/dev/null & echo 'no such terminal'; sleep 1"):
        nodes, where, found = one(audited)
    assert (nodes, where) == ("c2", "ssh")
    assert found == 'silent: no answer among 17 B of output, which begin "no such terminal"'


def test_half_an_answer(audited: Audited) -> None:
    with answering(audited, "c2", "/bin/sh -s | head -c 900"):
        ((severity, check, nodes, where, found),) = audited.findings("--via", "ssh", "--context", "bash-ssh", code=1)
    assert (severity, check, nodes, where) == ("error", "nodes", "c2", "ssh")
    assert found.startswith("silent: half an answer: ")


def test_hundred_megabytes(audited: Audited) -> None:
    with answering(audited, "c2", "head -c 100000000 /dev/zero"):
        nodes, _, found = one(audited)
    assert nodes == "c2"
    assert found.startswith("silent: cut off after 5.")
    assert found.endswith(" MB of output: no answer among it")


def test_answer_of_another_node(audited: Audited) -> None:
    """A wrong address, or a wrong line in /etc/hosts: without a word, one node would be looked at twice and one never."""
    with answering(audited, "c2", "exec ssh -o BatchMode=yes c1 /bin/sh -s"):
        nodes, where, found = one(audited)
    assert (nodes, where, found) == ("c2", "ssh", "answers as c1, as c1 does")


def test_node_that_says_nothing(audited: Audited) -> None:
    with answering(audited, "c2", "sleep 1200"):
        limit, found = long_enough(
            lambda limit: (f"{limit:g}", found_with(audited, "--node-timeout", limit)), alone, first=6
        )
    assert found == [("error", "nodes", "c2", "ssh", f"silent: no answer in {limit} s")]


def test_deadline_ends_the_audit(audited: Audited) -> None:
    with answering(audited, "c2", "sleep 1200"):
        _, found = long_enough(lambda limit: (f"{limit:g}", found_with(audited, "--deadline", limit)), alone, first=6)
    ((severity, check, nodes, where, text),) = found
    assert (severity, check, nodes, where) == ("error", "nodes", "c2", "ssh")
    assert text.startswith("silent: no answer in ")


def test_two_audits_at_once_do_not_disturb_each_other(audited: Audited) -> None:
    results: list[object] = []
    some = ("--via", "both", "--context", "bash-login", "--context", "sbatch-bash-login", "--context", "srun-bash")
    threads = [threading.Thread(target=lambda: results.append(audited.findings(*some))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[], []]


@pytest.mark.parametrize("via", ["ssh", "slurm"])
def test_interrupt_leaves_no_process_on_any_node(audited: Audited, via: str) -> None:
    """Ctrl-C while every context is under way: login shells that take their time.

    The test bed's Slurm (proctrack/linuxproc, no cgroups) ends no process of a job whose parent has ended: the job does. The
    shell in which slurmd itself asks for a user's environment (--export=NONE) is none of ours.
    """
    cluster, seconds = audited.cluster, f"{HANGS}.{len(via)}"
    before = _folders(audited)
    where = '[ -z "$SLURM_JOB_ID" ] || ' if via == "slurm" else ""
    for node in cluster.compute:
        cluster.write(node, "/etc/profile.d/slow.sh", f"{where}sleep {seconds}\n")
    try:
        argv = ["env", "ENVMGR_SITE=/etc/envmgr/site.yaml", *_python(), "-m", "envmgr", "audit", "--via", via]
        process = cluster.start("login", argv)
        wait_for(lambda: any(f"sleep {seconds}" in of for of in cluster.processes("c1")), what="a context under way")
        _interrupt(audited)
        _, stderr = process.communicate(timeout=DEADLINE)
        assert process.returncode == 130, stderr
        assert soon(lambda: not _left(audited)), _left(audited)
        assert soon(lambda: _folders(audited) <= before), _folders(audited) - before
        assert soon(lambda: cluster.exec("login", ["squeue", "-h"]).stdout == "")
        clients = ("ssh ", "srun ", "sbatch ")
        assert soon(lambda: not [line for line in cluster.processes("login") if line.startswith(clients)])
    finally:
        for node in cluster.compute:
            cluster.exec(node, ["rm", "/etc/profile.d/slow.sh"])
        cluster.wait_idle()


def _python() -> list[str]:
    import sys

    return [sys.executable]


def _interrupt(audited: Audited) -> None:
    """SIGINT to envmgr itself, from inside of its node, as a terminal would send it."""
    found = audited.cluster.exec("login", ["pgrep", "-f", "-m envmgr audit".replace("-m", "[-]m")]).stdout.split()
    assert found
    audited.cluster.exec("login", ["kill", f"-{signal.SIGINT.value}", *found])  # a child of it may have ended since


def _left(audited: Audited) -> list[str]:
    nodes = audited.cluster.compute
    lines = ((node, line) for node in nodes for line in audited.cluster.processes(node))
    return [f"{node}: {line}" for node, line in lines if "envmgr-audit" in line or line.startswith(f"sleep {HANGS}.")]


def _folders(audited: Audited) -> set[str]:
    """What runs of envmgr have in nodes' /tmp."""
    cluster = audited.cluster
    return {
        f"{n}: {f}"
        for n in cluster.compute
        for f in cluster.sh(n, "find /tmp -path '/tmp/envmgr-*' ! -path '/tmp/envmgr-build-*'").stdout.splitlines()
    }


def test_ordinary_user_audits_what_is_his(audited: Audited) -> None:
    """No root on the nodes: his own shells, and a note of what was not looked at."""
    said = audited.cluster.envmgr(["audit", "--via", "ssh", "--format", "json"], user="alice")
    assert said.code == 0
    assert [(f["severity"], f["check"], f["nodes"], f["where"], f["found"]) for f in said.data["findings"]] == [
        ("note", "contexts", "c[1-3]", "root", "not looked at: the audit logs in as alice")
    ]
    assert not re.search("denied|debug|warning|Lmod|kept", said.stderr, re.IGNORECASE), said.stderr


def test_ordinary_user_whom_the_nodes_do_not_let_in(audited: Audited) -> None:
    audited.cluster.exec("login", ["mv", "/home/alice/.ssh", "/home/alice/.ssh-away"], check=True)
    try:
        done = audited.cluster.envmgr(["audit", "--via", "ssh"], user="alice")
    finally:
        audited.cluster.exec("login", ["mv", "/home/alice/.ssh-away", "/home/alice/.ssh"], check=True)
    assert done.code == 3
    assert "error[nodes] c[1-3]: ssh\n  found     unreachable: Permission denied" in done.stdout


def test_healthy_audit_of_one_node_reports_nothing(audited: Audited) -> None:
    """Of all, both ways: test_slurm.py. A hundred of them: `make soak SOAK=audits`."""
    assert audited.findings("--via", "ssh", "--nodes", "c2") == []


def test_scancel_that_takes_its_time_ends_the_jobs_all_the_same(audited: Audited) -> None:
    """A busy slurmctld; the audit does not wait for it."""
    cluster, seconds = audited.cluster, f"{HANGS}.7"
    cluster.write("c2", "/etc/profile.d/slow.sh", f'[ -z "$SLURM_JOB_ID" ] || sleep {seconds}\n')
    slow = '#!/bin/sh\nsleep 5\nexec /usr/bin/scancel "$@"\n'
    try:
        with file_on(cluster, "login", "/usr/local/bin/scancel", slow):
            do(cluster, "login", "chmod 755 /usr/local/bin/scancel")
            some = ("--via", "slurm", "--context", "sbatch-bash-login", "--nodes", "c2")
            path = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
            argv = ["env", path, "ENVMGR_SITE=/etc/envmgr/site.yaml", *_python(), "-m", "envmgr", "audit", *some]
            process = cluster.start("login", argv)
            wait_for(lambda: any(f"sleep {seconds}" in line for line in cluster.processes("c2")), what="a job")
            _interrupt(audited)
            process.communicate(timeout=DEADLINE)
            assert soon(lambda: cluster.exec("login", ["squeue", "-h"]).stdout == "", 60)
        assert soon(lambda: not _left(audited)), _left(audited)
    finally:
        cluster.exec("c2", ["rm", "/etc/profile.d/slow.sh"])
        cluster.wait_idle()
