"""Build jobs that end without a result, or do not start: each is reported with its own cause, its fix, and a log that exists.

Slurm, its nodes and their mounts are real. What this Slurm cannot do (accounts, memory limits) is played by a program that
stands before Slurm's own on the login node.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.helpers.cluster import Cluster, faults
from tests.helpers.easybuild.slurm_workshop import BROKEN, GATED, Shop, ended, leave
from tests.helpers.waiting import soon, wait_for

AGAIN = "the same command builds it again; what is finished is kept"
PREFIX = "/cluster/sw"


def begun(shop: Shop, name: str, partition: str = "small", makefile: str = GATED) -> tuple[subprocess.Popen[str], str]:
    """A build whose job waits at its gate, and the job's number."""
    shop.toy(name, makefile)
    shop.lock(name)
    shop.shut(name)
    process = shop.start(name, "--no-publish", "--format", "json", "--partition", partition)
    assert soon(lambda: shop.runs(name)), shop.jobs()
    return process, shop.jobs("%i")[name]


def require_log(shop: Shop, found: dict[str, Any]) -> None:
    """The log that is named is there when the message is read, and no line names one that is gone."""
    assert shop.cluster.exec("login", ["test", "-s", found["log"]]).returncode == 0, found
    for line in found["context"]:
        if "was not kept" not in line:
            for path in re.findall(r"/(?:tmp|cluster/sw/var/log)/\S+\.log", line):
                assert shop.cluster.exec("login", ["test", "-e", path]).returncode == 0, line


@contextmanager
def played(cluster: Cluster, program: str, script: str) -> Iterator[None]:
    """On the login node, a program that stands before one of Slurm's: `$real` is that."""
    path = f"/usr/local/bin/{program}"
    cluster.write("login", path, f"#!/bin/sh\nreal=/usr/bin/{program}\n{script}\n", 0o755)
    try:
        yield
    finally:
        cluster.exec("login", ["rm", "-f", path])


def again(shop: Shop, name: str, partition: str) -> None:
    """The hint, after what it asks for was done."""
    done = shop.build(name, "--no-publish", "--partition", partition)
    assert done.code == 0, done.stderr
    assert name in shop.store()


@pytest.mark.parametrize(
    ("name", "fault", "why", "fix"),
    [
        ("readonly", faults.read_only, "cannot write {}: Read-only file system", "with `rw`"),
        ("unmounted", faults.unmounted, "{} is not there", ""),
    ],
)
def test_job_whose_node_cannot_write_the_prefix(
    shop: Shop, name: str, fault: Callable[[Cluster, str], AbstractContextManager[None]], why: str, fix: str
) -> None:
    shop.toy(name)
    shop.lock(name)
    with fault(shop.cluster, "c3"):
        done = shop.build(name, "--no-publish", "--partition", "far", "--format", "json")
    found = done.data
    assert (done.code, found["reference"]) == (3, "job-failed"), found
    assert re.fullmatch(r"job \d+, Slurm: FAILED, reason JobLaunchFailure, exit code 0:53, on c3", found["context"][0])
    assert f"c3: {why.format(f'{PREFIX}/var/log/slurm')}" in found["context"]
    assert "the job left no output: it did not begin" in found["context"]
    assert found["hint"] == " ".join(f"mount {PREFIX} on c3 {fix}".split()) + f"; {AGAIN}"
    require_log(shop, found)
    again(shop, name, "far")


@pytest.mark.slow
@pytest.mark.soak
def test_job_whose_prefix_is_unmounted_while_it_builds(shop: Shop) -> None:
    """It cannot leave its answer: its last words are in its output, which was open."""
    process, _ = begun(shop, "pulled", "far")
    with faults.unmounted(shop.cluster, "c3"):
        shop.open("pulled")
        found = ended(process).data
    assert found["reference"] == "job-failed"
    assert f"c3: {PREFIX}/var/log/slurm is not there" in found["context"]
    assert any(line.startswith("error[not-writable]: cannot write ") for line in found["context"])
    assert found["hint"] == f"mount {PREFIX} on c3; {AGAIN}"
    require_log(shop, found)


def test_job_whose_process_is_killed(shop: Shop) -> None:
    process, number = begun(shop, "killed")
    shop.cluster.sh("c1", "pkill -KILL -f '[_]build-item'", check=True)
    found = ended(process).data
    words = "Slurm: FAILED, reason JobLaunchFailure, killed by SIGKILL (out of memory?), on c1"
    assert found["context"][0] == f"job {number}, {words}"
    assert found["hint"].startswith("if the node's memory was full, ask for more (--mem=… in transport.slurm_options")
    require_log(shop, found)
    shop.open("killed")
    again(shop, "killed", "small")


def test_build_that_failed_for_want_of_memory_says_what_slurm_says(shop: Shop) -> None:
    """A compiler is killed, the build fails as others do, and only Slurm knows why."""
    process, number = begun(shop, "hungry", makefile=BROKEN)
    edit = "s/JobState=FAILED Reason=NonZeroExitCode/JobState=OUT_OF_MEMORY Reason=OutOfMemory/; s/ExitCode=3:0/ExitCode=0:125/"
    with played(shop.cluster, "scontrol", f'"$real" "$@" | sed "{edit}"'):
        shop.open("hungry")
        found = ended(process).data
    assert found["reference"] == "build-failed", (number, found)
    assert "Slurm: OUT_OF_MEMORY, reason OutOfMemory, exit code 0:125, on c1" in found["context"]
    assert found["hint"] == "give it more memory (--mem=… in transport.slurm_options of site.yaml), or fewer --cpus"
    require_log(shop, found)


@contextmanager
def forgetful(shop: Shop) -> Iterator[None]:
    """Slurm forgets ended jobs at once. A new configuration drops partitions that were created: those of the shop."""
    cluster = shop.cluster
    created = [
        f"scontrol create PartitionName={name} Nodes={node} State=UP" for name, node in (("small", "c1"), ("far", "c3"))
    ]
    cluster.sh("login", "echo MinJobAge=2 >>/etc/slurm/slurm.conf; scontrol reconfigure", check=True)
    try:
        yield
    finally:
        script = ["sed -i /MinJobAge/d /etc/slurm/slurm.conf", "scontrol reconfigure", *created]
        cluster.sh("login", "; ".join(script), check=True)


@pytest.mark.parametrize("accounts", [False, True])
def test_job_that_slurm_has_forgotten(shop: Shop, accounts: bool) -> None:
    cluster, name = shop.cluster, "known" if accounts else "forgotten"
    process, number = begun(shop, name)
    row = "CANCELLED by 2000|None|0:15|c1|20:00" if accounts else ""
    with forgetful(shop), played(cluster, "sacct", f"echo '{row}'" if accounts else 'exec "$real" "$@"'):
        cluster.exec("login", ["pkill", "-STOP", "-f", "envmgr build .*--via slurm"], check=True)
        cluster.exec("login", ["scancel", number], check=True)
        show = ["scontrol", "show", "job", number]
        wait_for(lambda: cluster.exec("login", show).returncode, what="Slurm to forget", seconds=300)
        cluster.exec("login", ["pkill", "-CONT", "-f", "envmgr build .*--via slurm"], check=True)
        os.kill(process.pid, signal.SIGCONT)  # nsenter stops with what it started
        found = ended(process).data
    assert found["reference"] == "job-failed"
    require_log(shop, found)
    if accounts:
        assert found["context"][0] == f"job {number}, Slurm: CANCELLED, killed by SIGTERM, on c1"
        assert found["hint"] == f"the job was cancelled: {AGAIN}"
    else:
        assert found["context"][:3] == [
            f"job {number}, Slurm: it does not know the job",
            "Slurm forgets ended jobs after 2 sec (MinJobAge)",
            "it was last seen running on c1",
        ]
        assert found["hint"] == f"only slurmctld's log still says how it ended; {AGAIN}"


def test_job_that_waits_for_somebody_is_told_who_and_started_by_what_is_said(shop: Shop) -> None:
    """One job, one cause after another; each command of a hint is run, and mends what it was said for."""
    cluster, name = shop.cluster, "patient"

    def slurm(*argv: str) -> str:
        return cluster.exec("login", argv, check=True).stdout.strip()

    shop.toy(name, GATED)
    shop.lock(name)
    shop.shut(name)
    filler = slurm("sbatch", "--parsable", "-p", "small", "-w", "c1", "--exclusive", "--wrap", "sleep 1200")
    process = shop.start(name, "--no-publish", "--partition", "small")
    assert soon(lambda: name in shop.jobs()), shop.jobs()
    number = shop.jobs("%i")[name]

    def said(text: str) -> bool:
        return len(shop.logs_with(re.escape(f"job {number} does not start by itself: {text}"))) == 1

    held = f"it is held: `scontrol release {number}` lets it start"
    slurm("scontrol", "uhold", number)
    assert soon(lambda: said(f"JobHeldUser; {held}"))
    slurm("scontrol", "release", number)
    slurm("scontrol", "hold", number)
    assert soon(
        lambda: said(f"JobHeldAdmin; an administrator holds it: `scontrol release {number}` as root lets it start")
    )
    slurm("scontrol", "release", number)
    slurm("scontrol", "update", "PartitionName=small", "State=DOWN")
    assert soon(lambda: said("PartitionDown; it starts when an administrator sets the partition to state=UP; or "))
    slurm("scontrol", "update", "PartitionName=small", "State=UP")
    slurm("scancel", filler)
    assert soon(lambda: shop.runs(name))
    slurm("scontrol", "suspend", number)
    assert soon(lambda: said(f"SUSPENDED; `scontrol resume {number}` as root lets it go on"))
    slurm("scontrol", "resume", number)
    shop.open(name)
    done = ended(process)
    assert done.code == 0, done.stderr
    assert name in shop.store()


def test_command_that_leaves_a_held_job_says_how_it_starts(shop: Shop) -> None:
    cluster = shop.cluster
    shop.toy("left")
    shop.lock("left")
    cluster.exec("login", ["scontrol", "update", "PartitionName=small", "State=DOWN"], check=True)
    try:
        process = shop.start("left", "--no-publish", "--partition", "small")
        assert soon(lambda: "left" in shop.jobs()), shop.jobs()
        number = shop.jobs("%i")["left"]
        cluster.exec("login", ["scontrol", "uhold", number], check=True)
        held = f"job {number} does not start by itself: JobHeldUser"
        assert soon(lambda: shop.logs_with(held))
        told = leave(cluster, process, "INT").stderr
    finally:
        cluster.exec("login", ["scontrol", "update", "PartitionName=small", "State=UP"], check=True)
    assert f"  {number} left/1.0-" in told
    assert f"; `scontrol release {number}` lets it start; `scancel {number}` ends it" in told
    cluster.exec("login", ["scontrol", "release", number], check=True)
    assert soon(lambda: "left" in shop.store() and not shop.jobs())
