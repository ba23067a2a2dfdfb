"""`envmgr test` on nodes: as an ordinary user, by ssh and Slurm, and what bad nodes and bad tests make of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.cluster.disguises import do
from tests.helpers.cluster.faults import OFF, dead_node, fake_driver, hung
from tests.helpers.cluster.site import SITE, settings
from tests.helpers.waiting import DEADLINE, HANGS, long_enough, soon

ENTRY = "smoketest/1.0"
NAP = 30
"""Seconds that the test `nap` may take: nodes that are well pass it on the slowest machine."""
# They pass until a file on the node says otherwise.
TESTS = [
    {
        "name": "clean",
        "run": "truncate -s 64M $TMPDIR/large || exit; echo $(id -un) in $PWD, $TMPDIR, ${SECRET-nothing}, $LOADEDMODULES; touch $HOME/f; [ ! -e /run/t-tell ]",
    },
    {"name": "file", "run": "echo looking; [ ! -e /run/t-broken ] || cat /run/nosuch"},
    {"name": "gpu", "run": "cat /sys/module/nvidia/version; false", "needs": ["gpu"]},
    {"name": "mpi", "run": ":", "needs": ["mpi"]},
    {
        "name": "nap",
        "run": "[ ! -e /run/t-slow ] || { sleep 1277 & setsid sleep 1277 & echo a; sleep 1277; }",
        "timeout": NAP,
    },
    {"name": "shell", "run": "[ ! -e /run/t-broken ] || { cat <<'ENVMGR_TEST'\n|x\nENVMGR_TEST\nnosuch; }"},
]


def publish(cluster: Cluster) -> None:
    cluster.empty_prefix(owner="rsw")
    cluster.write_site()
    cluster.recipe(ENTRY, ["hello-prefix"], tests=TESTS)
    for argv in (["lock", ENTRY], ["build", ENTRY]):
        done = cluster.envmgr(argv)
        assert done.code == 0, done.stderr


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Cluster:
    publish(cluster)
    return cluster


@contextmanager
def told(cluster: Cluster, node: str, *names: str) -> Iterator[None]:
    """Tests behave otherwise on this node."""
    paths = " ".join(f"/run/t-{name}" for name in names)
    do(cluster, node, f"touch {paths}")
    try:
        yield
    finally:
        do(cluster, node, f"rm -f {paths}")


@contextmanager
def without_launchers(cluster: Cluster, node: str) -> Iterator[None]:
    paths = do(cluster, node, "type -P mpiexec mpirun srun || :").split()
    for path in paths:
        do(cluster, node, f"mv {path} {path}-away")  # bash takes a file that it cannot run for a command, too
    try:
        yield
    finally:
        for path in paths:
            do(cluster, node, f"mv {path}-away {path}")


def text(stdout: str) -> list[str]:
    """The lines, with every time as `T`."""
    return [re.sub(r"\d+\.\d(-\d+\.\d)? s\)$", "T)", line) for line in stdout.splitlines()]


def traces(cluster: Cluster) -> set[str]:
    """What could be left of a run on a node: its processes, the tests' own, scratch folders."""
    found = {
        f"{node}: {line}"
        for node in cluster.compute
        for line in cluster.processes(node)
        if "envmgr-audit" in line or "sleep 1277" in line
    }
    folders = {node: do(cluster, node, "ls -d /tmp/envmgr-* 2>/dev/null || :").split() for node in cluster.compute}
    return found | {f"{node}: {folder}" for node, of_node in folders.items() for folder in of_node}


PASSED = [
    f"{ENTRY} clean: passed on c[1-3] (T)",
    f"{ENTRY} file: passed on c[1-3] (T)",
    f"{ENTRY} gpu: not tried on c[1-3] (no NVIDIA GPU on this node)",
    f"{ENTRY} mpi: passed on c[1-3] (T)",
    f"{ENTRY} nap: passed on c[1-3] (T)",
    f"{ENTRY} shell: passed on c[1-3] (T)",
]


@pytest.mark.parametrize(
    ("options", "user", "way"),
    [(["--nodes", "c[1-3]"], "root", "ssh"), (["--via", "slurm"], "root", "Slurm"), (["--via", "ssh"], "alice", "ssh")],
)
def test_tests_that_pass_on_all_nodes_fold_into_a_line_each(
    lab: Cluster, options: list[str], user: str, way: str
) -> None:
    before = traces(lab)
    done = lab.envmgr(["test", ENTRY, *options], user=user)
    assert (done.code, text(done.stdout)[:-1]) == (0, PASSED)
    assert re.fullmatch(rf"generation \d+, on 3 nodes by {way}, as alice", done.stdout.splitlines()[-1])
    assert soon(lambda: traces(lab) <= before), traces(lab) - before


def test_each_node_tells_its_own_end(lab: Cluster) -> None:
    before = traces(lab)
    with ExitStack() as stack:
        for context in (
            told(lab, "c1", "broken", "tell"),
            told(lab, "c2", "broken", "slow"),
            told(lab, "c3", "slow"),
            fake_driver(lab, "c3", "535.54.03"),
            without_launchers(lab, "c3"),
        ):
            stack.enter_context(context)
        do(lab, "c3", "touch /dev/nvidia0")
        stack.callback(do, lab, "c3", "rm /dev/nvidia0")
        done = lab.envmgr(["test", ENTRY, "--nodes", "c[1-3]"], env={"SECRET": "of the caller"})
    line = next(n for n in done.stdout.splitlines() if "nosuch: command" in n).split()[2]
    assert (done.code, text(done.stdout)[:-1]) == (
        1,
        [
            f"{ENTRY} clean: passed on c[2-3] (T)",
            f"{ENTRY} clean: failed on c1 (T)",
            f"  alice in $HOME, $HOME, nothing, {ENTRY}",
            "  exit status 1",
            f"{ENTRY} file: failed on c[1-2] (T)",
            "  looking",
            "  cat: /run/nosuch: No such file or directory",
            "  exit status 1",
            f"{ENTRY} file: passed on c3 (T)",
            f"{ENTRY} gpu: not tried on c[1-2] (no NVIDIA GPU on this node)",
            f"{ENTRY} gpu: failed on c3 (T)",
            "  535.54.03",
            "  exit status 1",
            f"{ENTRY} mpi: passed on c[1-2] (T)",
            f"{ENTRY} mpi: not tried on c3 (no MPI launcher on this node)",
            f"{ENTRY} nap: failed on c[2-3] (T)",
            "  a",
            f"  no end after {NAP} s",
            f"{ENTRY} nap: passed on c1 (T)",
            f"{ENTRY} shell: failed on c[1-2] (T)",
            "  |x",
            f"  test.sh: line {line} nosuch: command not found",
            "  exit status 127",
            f"{ENTRY} shell: passed on c3 (T)",
        ],
    )
    assert soon(lambda: traces(lab) <= before), traces(lab) - before


RANKS = """said=$(srun -n 2 sh -c 'echo "$SLURM_PROCID of $SLURM_NTASKS in $PWD"' | sort)
[ "$said" = "$(printf '0 of 2 in /\\n1 of 2 in /')" ] || { echo "$said"; exit 1; }
"""


@pytest.fixture(scope="module")
def ranks(lab: Cluster) -> str:
    """An entry whose test starts two processes by Slurm, as it was built: on the login node, in a job of its own."""
    entry = "ranks/1.0"
    tests = [{"name": "ranks", "run": RANKS, "needs": ["slurm"], "timeout": int(DEADLINE)}]
    lab.recipe(entry, ["hello-prefix"], tests=tests)
    assert lab.envmgr(["lock", entry]).code == 0
    done = lab.envmgr(["build", entry, "--format", "json"])
    assert done.code == 0, done.stderr
    assert [(t["status"], t["detail"]) for t in done.data["tests"]] == [("passed", "")]
    return entry


@pytest.mark.parametrize(("way", "user"), [("slurm", "root"), ("slurm", "alice"), ("ssh", "root")])
def test_test_that_needs_slurm_runs_within_a_job_and_without_one(lab: Cluster, ranks: str, way: str, user: str) -> None:
    done = lab.envmgr(["test", ranks, "--nodes", "c[1-3]", "--via", way], user=user)
    assert (done.code, text(done.stdout)[:-1]) == (0, [f"{ranks} ranks: passed on c[1-3] (T)"])
    assert soon(lambda: not lab.exec("login", ["squeue", "-h"]).stdout)


def test_test_that_needs_slurm_is_skipped_where_slurm_is_not(lab: Cluster, ranks: str) -> None:
    with without_launchers(lab, "c3"):
        done = lab.envmgr(["test", ranks, "--nodes", "c[2-3]"])
    assert (done.code, text(done.stdout)[:-1]) == (
        0,
        [f"{ranks} ranks: passed on c2 (T)", f"{ranks} ranks: not tried on c3 (no Slurm on this node)"],
    )


@contextmanager
def partition(cluster: Cluster, name: str, node: str) -> Iterator[None]:
    cluster.exec("login", ["scontrol", "create", f"PartitionName={name}", f"Nodes={node}", "State=UP"], check=True)
    try:
        yield
    finally:
        cluster.exec("login", ["scontrol", "delete", f"PartitionName={name}"], check=True)


def test_srun_of_a_test_asks_for_what_the_site_says(lab: Cluster) -> None:
    """At the build, and on nodes that are in no job; within one it is a step, wherever that is."""
    entry, where = "where/1.0", 'srun sh -c "echo \\$SLURM_JOB_PARTITION \\$SLURMD_NODENAME"'
    run = f'said=$({where}); [ "$said" = "few c2" ] || {{ echo "$said"; exit 1; }}'
    tests = [{"name": "where", "run": run, "needs": ["slurm"], "timeout": int(DEADLINE)}]
    lab.recipe(entry, ["hello-prefix"], tests=tests)
    lab.write_site(
        transport={**settings(lab.compute)["transport"], "slurm_options": ["--partition=all", "--partition=few"]}
    )
    try:
        with partition(lab, "few", "c2"):
            assert lab.envmgr(["lock", entry]).code == 0
            done = lab.envmgr(["build", entry, "--format", "json"])
            assert done.code == 0, done.stderr
            assert [(t["status"], t["detail"]) for t in done.data["tests"]] == [("passed", "")]
            tested = lab.envmgr(["test", entry, "--nodes", "c[1-2]", "--via", "ssh"])
            assert (tested.code, text(tested.stdout)[:-1]) == (0, [f"{entry} where: passed on c[1-2] (T)"])
            assert soon(lambda: not lab.exec("login", ["squeue", "-h"]).stdout)
    finally:
        lab.write_site()


def test_wait_in_the_queue_ends_with_the_tests_own_time_and_leaves_no_job(lab: Cluster, ranks: str) -> None:
    """At a build and on a node: where a test is not a step of a job that it has already."""

    def built_in(limit: float) -> tuple[int, int]:
        seconds = int(limit)
        tests = [{"name": "ranks", "run": RANKS, "needs": ["slurm"], "timeout": seconds}]
        for entry in ("ranks/2.0", "ranks/3.0"):
            lab.recipe(entry, ["hello-prefix"], tests=tests)
            assert lab.envmgr(["lock", entry]).code == 0
        return seconds, lab.envmgr(["build", "ranks/3.0"]).code

    seconds, _ = long_enough(built_in, lambda done: done[1] == 0, first=3)
    holder = lab.start("login", ["srun", "--exclusive", "-N3", "--job-name=holder", "sleep", "1200"], user="alice")
    try:
        assert soon(lambda: lab.exec("login", ["squeue", "-h", "-t", "R", "-n", "holder"]).stdout != "")
        built = lab.envmgr(["build", "ranks/2.0"])
        assert (built.code, f"no end after {seconds} s" in built.stderr) == (3, True)
        tested = lab.envmgr(["test", "ranks/3.0", "--nodes", "c1", "--via", "ssh"])
        assert (tested.code, f"  no end after {seconds} s" in tested.stdout.splitlines()) == (1, True)
        assert soon(lambda: lab.exec("login", ["squeue", "-h", "-o", "%j"]).stdout.split() == ["holder"]), lab.exec(
            "login", ["scontrol", "show", "job"]
        ).stdout
    finally:
        lab.exec("login", ["scancel", "-n", "holder"])
        holder.communicate(timeout=DEADLINE)


def test_module_that_a_node_lacks_is_a_failed_test(lab: Cluster) -> None:
    do(lab, "c2", "mount -t tmpfs tmpfs /usr/share/lmod")
    try:
        done = lab.envmgr(["test", ENTRY, "--nodes", "c[1-2]", "--format", "json"])
    finally:
        do(lab, "c2", "umount /usr/share/lmod")
    found = {(t["test"], t["status"], t["nodes"]): t["detail"] for t in done.data["tests"]}
    init = "/usr/share/lmod/lmod/init/bash"
    assert found["clean", "failed", "c2"] == f"envmgr: Lmod is not there: cannot read {init}\nexit status 97"
    assert found["clean", "passed", "c1"] == ""
    keys = {"schema", "generation", "tests", "nodes", "count", "via", "user", "missing", "seconds"}
    assert (done.code, done.data["schema"], done.data.keys()) == (1, "envmgr.test-nodes/1", keys)


def test_dead_node_is_told_and_gets_no_step(lab: Cluster) -> None:
    with dead_node(lab, "c3"):
        done = lab.envmgr(["test", ENTRY, "--via", "slurm", "--format", "json"])
    assert done.code == 3
    assert {t["nodes"] for t in done.data["tests"]} == {"c[1-2]"}
    (missing,) = done.data["missing"]
    assert (missing["nodes"], missing["status"]) == ("c3", "unreachable")
    assert missing["reason"] in [f"no step was started: over ssh first: {reason}" for reason in OFF]


def test_hung_prefix_is_told_in_seconds_and_drains_no_node(sshfs_cluster: Cluster) -> None:
    publish(sshfs_cluster)
    with hung(sshfs_cluster, "c2"):
        done = sshfs_cluster.envmgr(["test", ENTRY, "--via", "slurm"])
        assert sshfs_cluster.slurm_state("c2") == "idle"
    assert done.code == 3
    assert [line.replace("[1,3]", "[1-3]") for line in text(done.stdout)[:-2]] == PASSED
    assert done.stdout.splitlines()[-2] == "hung: c2: no step was started: the prefix does not answer"


@pytest.mark.parametrize("way", ["ssh", "slurm"])
def test_ctrl_c_leaves_nothing_on_any_node(lab: Cluster, way: str) -> None:
    before = traces(lab)
    with ExitStack() as stack:
        for node in lab.compute:
            stack.enter_context(told(lab, node, "slow"))
        lab.recipe("smoketest/2.0", ["hello-prefix"], tests=[TESTS[4] | {"timeout": HANGS}])
        for argv in (["lock", "smoketest/2.0"], ["build", "smoketest/2.0"]):
            assert lab.envmgr(argv).code == 0
        argv = [sys.executable, "-m", "envmgr", "test", "smoketest/2.0", "--nodes", "c[1-3]", "--via", way]
        process = lab.start("login", argv, env={"ENVMGR_SITE": str(SITE)})
        assert soon(lambda: all(sum("sleep 1277" in p for p in lab.processes(n)) == 3 for n in lab.compute))
        do(lab, "login", "pkill -INT -f '^[^ ]+ -m envmgr test smoketest/2.0'")
        _, stderr = process.communicate(timeout=DEADLINE)
        assert process.returncode == 130, stderr
        assert soon(lambda: traces(lab) <= before), traces(lab) - before
        assert soon(lambda: not lab.exec("login", ["squeue", "-h"]).stdout)


@pytest.mark.parametrize(
    ("options", "user", "code", "said"),
    [
        (
            ["--user", "root", "--nodes", "c1"],
            "root",
            2,
            "error[test-user]: smoke tests are not run as root\n  --user root\n\nhint: name an ordinary user\n",
        ),
        (
            ["--user", "rsw", "--via", "slurm"],
            "alice",
            2,
            "error[test-user]: only root can start a Slurm step of rsw\n  you are alice\n",
        ),
        (
            ["--user", "ghost", "--via", "slurm"],
            "root",
            2,
            "error[unknown-user]: the user `ghost` does not exist here\n",
        ),
        (
            ["smoketest/1.1", "--via", "ssh"],
            "alice",
            2,
            "error[not-published]: smoketest/1.1 is not published\n  generation N\n\nhint: did you mean smoketest/1.0",
        ),
    ],
)
def test_what_cannot_be_asked_is_an_error(lab: Cluster, options: list[str], user: str, code: int, said: str) -> None:
    done = lab.envmgr(["test", *options], user=user)
    assert (done.code, done.stdout) == (code, "")
    assert re.sub(r"generation \d+", "generation N", done.stderr).startswith(said)


def test_user_whom_nodes_do_not_have_is_told(lab: Cluster) -> None:
    done = lab.envmgr(["test", ENTRY, "--nodes", "c[1-2]", "--user", "ghost"])
    assert (done.code, done.stdout.splitlines()[0]) == (3, "unfit: c[1-2]: there is no user ghost")
