"""Tests of several nodes: one Slurm job for all of them, and what is told where that cannot be."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.cluster.faults import dead_node
from tests.helpers.cluster.site import SITE
from tests.helpers.waiting import DEADLINE, soon, wait_for

ENTRY = "span/1.0"
TOLD = Path("/home/alice/told")
# A plain srun goes over all nodes of the job. What a task says is kept, to be looked at: a test that passes tells nothing.
BOTH = f"""said=$(srun --ntasks-per-node=1 sh -c 'echo "$SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME in $SLURM_JOB_ID"' | sort)
echo "$said" | tee {TOLD}/both
echo "$SLURM_JOB_NODELIST $SLURM_JOB_NUM_NODES $SLURM_NNODES $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) $(uname -n)" >{TOLD}/seen
[ "$(echo "$said" | grep -c " of $SLURM_JOB_NUM_NODES on ")" = "$SLURM_JOB_NUM_NODES" ]"""
# They are one of two kinds: on each node, or over several.
TESTS = [
    {
        "name": "alone",
        "run": f'[ ! -d {TOLD} ] || [ $(id -un) != alice ] || echo "${{SLURM_JOB_ID-none}}" >{TOLD}/alone-$(uname -n)',
        "needs": ["slurm"],
    },
    {"name": "both", "run": BOTH, "needs": ["slurm"], "nodes": 2, "timeout": int(DEADLINE)},
    {"name": "three", "run": BOTH, "needs": ["slurm"], "nodes": 3, "timeout": int(DEADLINE)},
]


def publish(cluster: Cluster, entry: str, tests: list[dict[str, object]]) -> str:
    cluster.recipe(entry, ["hello-prefix"], tests=tests)
    assert cluster.envmgr(["lock", entry]).code == 0
    done = cluster.envmgr(["build", entry])
    assert done.code == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Cluster:
    cluster.empty_prefix(owner="rsw")
    cluster.write_site()
    cluster.exec("login", ["install", "-d", "-o", "alice", TOLD], check=True)
    return cluster


@pytest.fixture(scope="module")
def spanning(lab: Cluster) -> str:
    """The entry, as it was built: what spans nodes was not run, and that was said."""
    built = publish(lab, ENTRY, TESTS)
    assert f"test {ENTRY} `both`: {not_run(2)}" in built.splitlines()
    return built


def not_run(nodes: int) -> str:
    return f"not run (it needs {nodes} nodes: `envmgr test {ENTRY} --via slurm -N {nodes}`)"


def text(stdout: str) -> list[str]:
    return [re.sub(r"\d+\.\d(-\d+\.\d)? s\)$", "T)", line) for line in stdout.splitlines()]


def told(cluster: Cluster, name: str) -> str:
    return cluster.exec("login", ["cat", TOLD / name], check=True).stdout


def no_jobs(cluster: Cluster) -> bool:
    return not cluster.exec("login", ["squeue", "-h"]).stdout


@pytest.mark.parametrize("user", ["root", "alice"])
def test_two_nodes_are_one_job(lab: Cluster, spanning: str, user: str) -> None:
    del spanning
    lab.sh("login", f"rm -f {TOLD}/*")
    done = lab.envmgr(["test", ENTRY, "--via", "slurm", "-N", "2"], user=user)
    nodes = re.search(r"passed on (\S+)", done.stdout)
    assert nodes, done.stdout + done.stderr
    assert (done.code, text(done.stdout)[:-1]) == (
        0,
        [
            f"{ENTRY} alone: passed on {nodes[1]} (T)",
            f"{ENTRY} both: passed on {nodes[1]} (T)",
            f"{ENTRY} three: {not_run(3)}",
        ],
    )
    assert done.stdout.endswith(", on 2 nodes by Slurm, as alice\n")
    ranks = [line.split() for line in told(lab, "both").splitlines()]
    assert [(rank[0], rank[2]) for rank in ranks] == [("0", "2"), ("1", "2")]
    hosts = [rank[4] for rank in ranks]
    assert told(lab, "seen").split() == [nodes[1], "2", "2", hosts[0], hosts[0]]
    jobs = {rank[6] for rank in ranks} | {told(lab, f"alone-{host}").strip() for host in hosts}
    assert len(jobs) == 1, jobs
    assert soon(lambda: no_jobs(lab))


def test_larger_job_runs_each_test_over_all_of_its_nodes(lab: Cluster, spanning: str) -> None:
    del spanning
    done = lab.envmgr(["test", ENTRY, "-N", "3"])  # only Slurm has jobs
    names = ("alone", "both", "three")
    assert (done.code, text(done.stdout)[:-1]) == (0, [f"{ENTRY} {name}: passed on c[1-3] (T)" for name in names])
    assert told(lab, "seen").split() == ["c[1-3]", "3", "3", "c1", "c1"]


def test_job_takes_of_the_named_nodes_those_that_are_well(lab: Cluster, spanning: str) -> None:
    del spanning
    with dead_node(lab, "c2"):
        done = lab.envmgr(["test", ENTRY, "--nodes", "c[1-3]", "--via", "slurm", "-N", "2"])
        assert done.code == 0, done.stderr
        assert f"{ENTRY} both: passed on c[1,3] (T)" in text(done.stdout)
        assert "without c2: unreachable: " in done.stderr
        short = lab.envmgr(["test", ENTRY, "--via", "slurm", "-N", "3"])
    assert (short.code, short.stdout) == (3, "")
    error = short.stderr[short.stderr.index("error[") :].splitlines()
    assert error[0] == "error[too-few-nodes]: 2 of the nodes can run tests, and 3 are asked for"
    assert error[1].startswith("  unreachable: c2: no step was started: over ssh first: ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], f"test {ENTRY} `both`: {not_run(2)}"),
        (["--nodes", "c[1-3]"], f"{ENTRY} both: {not_run(2)}"),
        (["--nodes", "c[1-3]", "--via", "slurm"], f"{ENTRY} both: {not_run(2)}"),
        (["--via", "slurm", "-N", "1"], f"{ENTRY} both: {not_run(2)}"),
    ],
)
def test_fewer_nodes_or_none_together_is_not_run_and_never_passed(
    lab: Cluster, spanning: str, options: list[str], said: str
) -> None:
    del spanning
    lab.sh("login", f"rm -f {TOLD}/both")
    done = lab.envmgr(["test", ENTRY, *options], user="alice")
    assert (done.code, said in done.stdout.splitlines()) == (0, True), done.stdout
    assert lab.sh("login", f"[ ! -e {TOLD}/both ]").returncode == 0
    data = lab.envmgr(["test", ENTRY, *options, "--format", "json"], user="alice").data
    assert {t["test"]: t["status"] for t in data["tests"]} == {"alone": "passed", "both": "not-run", "three": "not-run"}


def test_count_is_for_slurm(lab: Cluster, spanning: str) -> None:
    del spanning
    done = lab.envmgr(["test", ENTRY, "--via", "ssh", "-N", "2"])
    assert (done.code, done.stdout, done.stderr) == (
        2,
        "",
        "error[test-count]: -N is the size of a Slurm job\n  --via ssh\n\nhint: `--via slurm`\n",
    )


def test_nodes_that_others_have_are_waited_for_as_long_as_the_site_says(lab: Cluster, spanning: str) -> None:
    del spanning
    lab.write_site(transport={"via": "both", "user": "root", "queue_timeout": 2})
    holder = lab.start("login", ["srun", "--exclusive", "-N2", "--job-name=holder", "sleep", "1200"], user="alice")
    try:
        assert soon(lambda: lab.exec("login", ["squeue", "-h", "-t", "R", "-n", "holder"]).stdout != "")
        done = lab.envmgr(["test", ENTRY, "--via", "slurm", "-N", "2"])
    finally:
        lab.exec("login", ["scancel", "-n", "holder"])
        holder.communicate(timeout=DEADLINE)
        lab.write_site()
    assert (done.code, done.stdout) == (3, "")
    assert "error[job-not-started]: no job of 2 nodes started within 2 s\n" in done.stderr
    assert soon(lambda: no_jobs(lab))


def test_failure_and_a_hang_are_told_with_both_nodes_and_leave_no_job(lab: Cluster) -> None:
    entry = "span/2.0"
    tests = [
        {"name": "wrong", "run": "srun -l --ntasks-per-node=1 sh -c 'exit $SLURM_PROCID'", "timeout": int(DEADLINE)},
        {"name": "hangs", "run": "srun --ntasks-per-node=1 sleep 1277", "timeout": 5},
    ]
    publish(lab, entry, [test | {"needs": ["slurm"], "nodes": 2} for test in tests])
    done = lab.envmgr(["test", entry, "--via", "slurm", "--nodes", "c[2-3]", "-N", "2", "--format", "json"])
    assert done.code == 1, done.stderr
    wrong, hangs = done.data["tests"]
    assert (wrong["status"], wrong["nodes"]) == ("failed", "c[2-3]")
    assert wrong["detail"].endswith("task 1: Exited with exit code 1\nexit status 1")
    assert (hangs["status"], hangs["nodes"]) == ("failed", "c[2-3]")
    assert hangs["detail"].endswith("no end after 5 s")
    assert (done.data["nodes"], done.data["count"], done.data["missing"]) == ("c[2-3]", 2, [])
    assert soon(lambda: no_jobs(lab))
    assert soon(lambda: not any("sleep 1277" in line for node in lab.compute for line in lab.processes(node)))


@pytest.fixture(scope="module")
def hanging(lab: Cluster) -> str:
    entry = "span/3.0"
    run = "srun --ntasks-per-node=1 sleep 1277"
    publish(lab, entry, [{"name": "hangs", "run": run, "needs": ["slurm"], "nodes": 2, "timeout": 1200}])
    return entry


def sleeping(cluster: Cluster) -> list[str]:
    """Nodes on which the test's own task is; its srun has the same words behind others."""
    alive = [node for node in cluster.compute if cluster.alive(node)]
    return [node for node in alive if any(re.fullmatch(r"\S*sleep 1277", line) for line in cluster.processes(node))]


@pytest.mark.parametrize(("signal", "code"), [("INT", 130), ("KILL", -9)])
def test_killed_run_leaves_no_job(lab: Cluster, hanging: str, signal: str, code: int) -> None:
    argv = [sys.executable, "-m", "envmgr", "test", hanging, "--via", "slurm", "-N", "2", "--deadline", "1000"]
    process = lab.start("login", argv, env={"ENVMGR_SITE": str(SITE)})
    wait_for(lambda: len(sleeping(lab)) == 2, what="both tasks")
    lab.sh("login", f"pkill -{signal} -f '^[^ ]+ -m envmgr test {hanging}'")
    _, stderr = process.communicate(timeout=DEADLINE)
    assert process.returncode in (code, 128 - code), stderr
    assert soon(lambda: no_jobs(lab)), lab.exec("login", ["squeue"]).stdout
    assert soon(lambda: not sleeping(lab))


@pytest.mark.slow
@pytest.mark.soak
def test_node_that_dies_under_a_test_is_no_pass_and_ends_in_time(lab: Cluster, hanging: str) -> None:
    argv = [
        sys.executable,
        "-m",
        "envmgr",
        "test",
        hanging,
        "--via",
        "slurm",
        "--nodes",
        "c[1-2]",
        "-N",
        "2",
        "--deadline",
        "60",
    ]
    began = time.monotonic()
    process = lab.start("login", argv, env={"ENVMGR_SITE": str(SITE)})
    wait_for(lambda: len(sleeping(lab)) == 2, what="both tasks")
    with dead_node(lab, "c2"):
        stdout, stderr = process.communicate(timeout=DEADLINE)
    assert process.returncode in (1, 3), stderr
    assert "passed" not in stdout
    assert time.monotonic() - began < DEADLINE
    assert soon(lambda: no_jobs(lab))
