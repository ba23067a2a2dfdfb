"""`envmgr job`: what it prints is submitted as it is, by an ordinary user, and runs on two nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster.faults import fake_driver

pytestmark = pytest.mark.xdist_group("audited")

HOME = Path("/home/alice/jobs")
ENTRY = "hello/2.0"
PROGRAM = """\
import os, sys
names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURMD_NODENAME", "LOADEDMODULES", "OMP_NUM_THREADS", "MASTER_ADDR", "MASTER_PORT")
print("task", *(os.environ.get(name, "none") for name in names), sys.prefix, flush=True)
"""


@pytest.fixture
def lab(audited: Audited) -> Audited:
    audited.cluster.sh("login", f"rm -rf {HOME}; install -d -o alice {HOME}", check=True)
    audited.cluster.write("login", HOME / "program.py", PROGRAM)
    audited.cluster.wait_idle()
    return audited


@pytest.mark.parametrize("how", ["", "--export=NONE"])
def test_script_runs_as_it_is_printed_on_two_nodes(lab: Audited, how: str) -> None:
    script = lab.cluster.envmgr(["job", ENTRY, "-N", "2", "--cpus", "1", "--time", "5"], user="alice")
    assert (script.code, script.stderr) == (0, "")
    lab.cluster.write("login", HOME / "job.sh", script.stdout)
    # The user's shell has another module loaded: the job has what it names.
    line = f"cd {HOME} && module load hello/1.0 && sbatch --wait --parsable {how} job.sh"
    done = lab.cluster.exec("login", ["bash", "-lc", line], user="alice")
    said = lab.cluster.sh("login", f"cat {HOME}/hello-*.out").stdout
    assert done.returncode == 0, done.stderr + said
    job = int(done.stdout.split()[-1])
    digest = lab.cluster.envmgr(["job", ENTRY, "--format", "json"]).data["digest"]
    log, *tasks = [line for line in said.splitlines() if line.startswith(("envmgr: ", "task "))]
    hosts = sorted(line.split()[3] for line in tasks)
    assert len(set(hosts)) == 2, said
    assert log.startswith(f"envmgr: {ENTRY}, generation {lab.generation}, digest {digest[:8]}, on c[")
    rest = f"{ENTRY} 1 {hosts[0]} {20000 + job % 10000} {lab.cluster.prefix}/store/hello/2.0-{digest[:8]}"
    assert sorted(tasks) == [f"task {rank} 2 {host} {rest}" for rank, host in enumerate(hosts)]


def test_tasks_get_the_jobs_cores(lab: Audited) -> None:
    step = "scontrol show step $SLURM_JOB_ID.$SLURM_STEP_ID | grep -o 'CPUs=[0-9]*'; echo cores $OMP_NUM_THREADS"
    script = lab.cluster.envmgr(["job", ENTRY, "--cpus", "2", "--", "sh", "-c", step], user="alice").stdout
    lab.cluster.write("login", HOME / "cores.sh", script)
    done = lab.cluster.exec("login", ["bash", "-lc", f"cd {HOME} && sbatch --wait -o cores.out cores.sh"], user="alice")
    said = lab.cluster.sh("login", f"cat {HOME}/cores.out").stdout
    assert done.returncode == 0, done.stderr + said
    assert said.splitlines()[1:] == ["CPUs=2", "cores 2"]


def test_module_that_does_not_load_ends_the_job(lab: Audited) -> None:
    script = lab.cluster.envmgr(["job", ENTRY, "--", "echo", "came here"], user="alice").stdout
    lab.cluster.write("login", HOME / "job.sh", script.replace(f"module load {ENTRY}", "module load gone/1.0"))
    line = f"cd {HOME} && sbatch --wait -o job.out job.sh"
    done = lab.cluster.exec("login", ["bash", "-lc", line], user="alice")
    said = lab.cluster.sh("login", f"cat {HOME}/job.out").stdout
    assert (done.returncode, "gone" in said, "came here" in said) == (1, True, False)


def test_nodes_that_an_audit_saw_unfit_are_left_out(lab: Audited) -> None:
    lab.cluster.recipe("needy/1.0", ["hello-prefix"], requires={"nvidia_driver": "525.60.13"})
    try:
        lab.envmgr("lock", "needy/1.0")
        lab.envmgr("build", "needy/1.0")
        with fake_driver(lab.cluster, "c2", "470.82.01"):
            lab.audit("--check", "fitness")
            done = lab.cluster.envmgr(["job", "needy/1.0"], user="alice")
        assert done.code == 0, done.stderr
        assert "#SBATCH --exclude=c2\n" in done.stdout
        assert done.stderr == "without c2: driver 470.82.01 is older than 525.60.13\n"
        assert lab.cluster.envmgr(["job", ENTRY], user="alice").stdout.count("--exclude") == 0
    finally:
        lab.cluster.envmgr(["publish", "--remove", "needy/1.0"])
        lab.audit("--check", "fitness")
