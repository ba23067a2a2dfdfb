"""GPUs that Slurm's device constraint hides from ssh, and from jobs that ask for none: a job that asks for one is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster.disguises import IN_ITS_JOB, fake_driver, slurm_gpu
from tests.helpers.cluster.site import settings
from tests.helpers.marks import LATER
from tests.helpers.waiting import DEADLINE, wait_for

pytestmark = pytest.mark.xdist_group("audited")
DRIVER = "575.57.08"
HIDDEN = "`nvidia-smi` lists none, the driver does: Slurm's or sshd's device constraint may hide them from who asks"
JOB = "a job with `--gres=gpu:1`"
# What the table of entries and nodes is made of.
CHECKS = ("--check", "fitness", "--check", "software", "--nodes", "c[1-2]")
RUNNING = ("squeue", "-h", "--states=RUNNING", "--user=root")
SSH = ("--via", "ssh", "--context", "bash-ssh")


@pytest.fixture(scope="module")
def entry(audited: Audited) -> Iterator[str]:
    """An entry with code for the GPU."""
    name = "needy/2.0"
    specs, virtual = ["hello-prefix", "cuda-version=12.9"], {"__cuda": "12.9"}
    wanted = {"channels": ["standin"], "specs": specs, "virtual_packages": virtual}
    requires = {"compute_capability": ["7.5"], "nvidia_driver": "525.60.13"}
    audited.cluster.recipe(name, [], input=wanted, requires=requires)
    audited.envmgr("lock", name)
    audited.envmgr("build", name)
    yield name
    audited.envmgr("publish", "--remove", name)
    audited.audit("--check", "fitness", "--via", "ssh")


@pytest.fixture
def hidden(audited: Audited, entry: str) -> Iterator[str]:
    """c2 has a GPU that only jobs with `--gres` are shown; `entry` needs one."""
    with fake_driver(audited.cluster, "c2", DRIVER, compute_capability="7.5", shown=IN_ITS_JOB):
        yield entry


@pytest.fixture
def given(audited: Audited, hidden: str) -> Iterator[str]:
    """The same, and Slurm gives the GPU to jobs."""
    with slurm_gpu(audited.cluster, "c2"):
        yield hidden


def told(audited: Audited, entry: str, *argv: str) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """What is said of the GPUs of c2, and node -> what the table says of the entry."""
    result = audited.audit(*CHECKS, *argv)
    said = [(f["severity"], f["found"]) for f in result["findings"] if (f["nodes"], f["where"]) == ("c2", "GPUs")]
    rows = {
        row["nodes"]: f"{row['fit']} {'; '.join(row['reasons'])}".strip()
        for row in result["matrix"]
        if row["entry"] == entry
    }
    left = audited.cluster.exec("login", ["squeue", "-h", "-o", "%u %j %T"]).stdout.splitlines()
    assert [line for line in left if line.startswith("alice envmgr-") and not line.endswith("COMPLETING")] == []
    assert audited.cluster.sh("c2", "ls -d /tmp/envmgr* /dev/shm/envmgr* 2>/dev/null").stdout == ""
    return said, rows


def capability(audited: Audited) -> list[str]:
    """Of the GPUs of c2, as `build --gate` and `show` know them."""
    kept = json.loads((audited.cluster.host_prefix / "var/audit/nodes.json").read_text())
    (seen,) = [each for each in kept["seen"] if "c2" in each["nodes"]]
    return [gpu["arch"] for gpu in seen["facts"]["gpus"]]


@pytest.mark.parametrize(
    "argv",
    [
        SSH,
        ("--via", "both", "--context", "bash-ssh", "--context", "sbatch-bash"),
        pytest.param(("--via", "slurm", "--context", "sbatch-bash"), marks=LATER),
    ],
)
def test_job_that_asks_for_a_gpu_tells_what_ssh_and_other_jobs_are_not_shown(
    audited: Audited, given: str, argv: tuple[str, ...]
) -> None:
    said, rows = told(audited, given, *argv)
    assert said == [("note", f"{HIDDEN}; {JOB} was shown NVIDIA GeForce GTX 1650 (7.5)")]
    assert rows == {"c2": "True", "c1": "True without GPU"}
    assert capability(audited) == ["7.5"]


def test_no_job_is_sent_for_a_gpu_that_another_job_has(audited: Audited, given: str) -> None:
    cluster = audited.cluster
    busy = cluster.start("login", ["srun", "-Q", "--gres=gpu:1", "-w", "c2", "sleep", "1269"])
    try:
        wait_for(lambda: cluster.exec("login", RUNNING).stdout, what="the job on c2")
        said, rows = told(audited, given, *SSH)
    finally:
        cluster.sh("login", "scancel --state=RUNNING --user=root")
        busy.communicate(timeout=DEADLINE)
        cluster.wait_idle()
    assert said == [
        ("note", f"{HIDDEN}; {JOB} gave no answer: no job was sent: busy: its GPU is in use by another job")
    ]
    assert rows == {
        "c1": "True without GPU",
        "c2": "None not known: the compute capability of NVIDIA GeForce GTX 1650 is not known",
    }


@pytest.mark.slow
@pytest.mark.soak
def test_job_that_waits_for_others_is_cancelled(audited: Audited, given: str) -> None:
    """The GPU is free, the node is not."""
    cluster = audited.cluster
    cluster.write_site(transport={**settings(cluster.compute)["transport"], "queue_timeout": 1})
    busy = cluster.start("login", ["srun", "-Q", "-n4", "-w", "c2", "sleep", "1269"])
    try:
        wait_for(lambda: cluster.exec("login", RUNNING).stdout, what="the job on c2")
        ((severity, said),), _ = told(audited, given, *SSH)
    finally:
        cluster.sh("login", "scancel --state=RUNNING --user=root")
        busy.communicate(timeout=DEADLINE)
        cluster.wait_idle()
        cluster.write_site()
    assert severity == "note"
    assert said.startswith(f"{HIDDEN}; {JOB} gave no answer: busy: the job did not start within 1 s")
    assert said.endswith("; the node was allocated")


def test_node_to_which_slurm_gives_no_gpu(audited: Audited, hidden: str) -> None:
    said, rows = told(audited, hidden, *SSH)
    assert said == [("note", f"{HIDDEN}; {JOB} gave no answer: no job was sent: Slurm has no `gpu` among its Gres")]
    assert rows["c2"].startswith("None not known: ")


def test_site_that_wants_no_such_jobs(audited: Audited, hidden: str) -> None:
    audited.cluster.write_site(audit={"user": "alice", "gpu_jobs": False})
    try:
        said, _ = told(audited, hidden, *SSH)
    finally:
        audited.cluster.write_site()
    assert said == [
        ("note", f"{HIDDEN}; {JOB} gave no answer: no job was sent: `audit.gpu_jobs` is false in site.yaml")
    ]


@pytest.mark.slow
@pytest.mark.soak
def test_gpu_in_a_partition_that_is_not_the_default(audited: Audited, hidden: str) -> None:
    with slurm_gpu(audited.cluster, "c2", partition="gpus"):
        said, rows = told(audited, hidden, *SSH)
    assert said == [("note", f"{HIDDEN}; {JOB} was shown NVIDIA GeForce GTX 1650 (7.5)")]
    assert rows["c2"] == "True"


def test_gpu_that_its_own_job_is_not_shown_either_is_a_warning(audited: Audited, entry: str) -> None:
    cluster = audited.cluster
    with fake_driver(cluster, "c2", DRIVER, compute_capability="7.5", shown="false"), slurm_gpu(cluster, "c2"):
        said, rows = told(audited, entry, *SSH)
    none = f"{JOB} sees none either: nvidia-smi says `No devices were found`, CUDA_VISIBLE_DEVICES is 0"
    assert said == [("warning", none)]
    assert rows["c2"].startswith("None not known: ")
