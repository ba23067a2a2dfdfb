"""The audit through Slurm, and what users do: job scripts in every context, on every node."""

from __future__ import annotations

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import faults
from tests.helpers.cluster.site import settings
from tests.helpers.waiting import DEADLINE, long_enough, wait_for

pytestmark = pytest.mark.xdist_group("audited")
PREFIX = "/cluster/sw"
# Every check, in one kind of shell of each way: for faults that shells have no part in.
IN_JOBS = ("--context", "sbatch-bash", "--context", "sbatch-bash-none")
BOTH = ("--via", "both", "--context", "bash-ssh", *IN_JOBS)


@pytest.mark.always
def test_green_over_ssh_and_slurm(audited: Audited) -> None:
    result = audited.audit("--via", "both", code=0)
    assert result["findings"] == []
    everybody = {"answered": "c[1-3]", "silent": "", "unreachable": ""}
    assert result["asked"] == [{"way": way, **everybody} for way in ("ssh", "slurm", "slurm-none")]
    assert result["contexts"] == [
        "bash-login",
        "bash-interactive",
        "bash-ssh",
        "csh",
        "sbatch-bash",
        "sbatch-bash-login",
        "sbatch-sh",
        "sbatch-wrap",
        "srun-bash",
        "srun-pty",
        "sbatch-bash-none",
        "sbatch-bash-login-none",
        "sbatch-sh-none",
        "sbatch-wrap-none",
        "srun-bash-none",
    ]


@pytest.mark.parametrize("export", ["ALL", "NONE"])
@pytest.mark.parametrize("first", ["#!/bin/bash", "#!/bin/bash -l", "#!/bin/sh\n. $LMOD_PKG/init/sh"])
def test_job_script_loads_a_module_on_every_node(audited: Audited, first: str, export: str) -> None:
    """As alice types it, at a prompt of the login node."""
    cluster = audited.cluster
    script = f"{first}\nmodule load hello/2.0\npython -c 'import sys; print(sys.prefix)'\n"
    cluster.exec("login", ["install", "-o", "alice", "/dev/stdin", "/home/alice/job.sh"], stdin=script, check=True)
    submit = "; ".join(f"sbatch -Q -w {n} --export={export} -o /home/alice/{n}.out job.sh" for n in cluster.compute)
    cluster.exec("login", ["bash", "-lc", f"cd; {submit}"], user="alice", check=True)
    wanted = f"{PREFIX}/store/hello/2.0-"
    wait_for(lambda: not cluster.exec("login", ["squeue", "-h"]).stdout, what="the end of the jobs")
    said = {n: cluster.exec("login", ["cat", f"/home/alice/{n}.out"]).stdout for n in cluster.compute}
    cluster.sh("login", "rm -f /home/alice/*.out /home/alice/job.sh")
    last = {node: text.splitlines()[-1:] for node, text in said.items()}
    assert all(line and line[0].startswith(wanted) for line in last.values()), said
    assert all(text.startswith("Note: srun starts tasks") is (export == "NONE") for text in said.values()), said


@pytest.mark.parametrize("argv", [["bash", "-lc"], ["bash", "-c"]])
def test_command_over_ssh_loads_a_module_on_every_node(audited: Audited, argv: list[str]) -> None:
    for node in audited.cluster.compute:
        command = "module load hello/2.0 && python -c 'import sys; print(sys.prefix)'"
        words = f"{' '.join(argv)} {_quoted(command)}" if argv[1] == "-lc" else command
        done = audited.cluster.exec("login", ["ssh", node, words], user="alice")
        assert done.stdout.startswith(f"{PREFIX}/store/hello/2.0-"), done


def test_hung_prefix_drains_no_node(audited: Audited) -> None:
    with faults.hung(audited.cluster, "c2"):
        found = audited.findings("--via", "slurm", *IN_JOBS, code=1)
        assert audited.cluster.slurm_state("c2") == "idle"
    assert found == [
        ("error", "mount", "c2", PREFIX, "does not answer (fuse.nfs3 fs1:/export/sw)"),
        (
            "note",
            "nodes",
            "c2",
            "Slurm (inherited environment, --export=NONE)",
            "unreachable: no job was sent: its prefix does not answer, and a job stuck on it would drain the node",
        ),
    ]


def test_stopped_slurmd_is_told_while_ssh_is_well(audited: Audited) -> None:
    with faults.slurmd_stopped(audited.cluster, "c2", noticed=True):
        found = audited.findings(*BOTH, code=1)
    # Slurm says so too once its SlurmdTimeout is over.
    found = [(*rest, text.replace("down, not responding", "down")) for *rest, text in found]
    assert found[0][:4] == ("error", "inventory", "c2", "daemon slurmd")
    assert found[1:] == [
        ("error", "slurm", "c2", "Slurm", "down: slurmd-stopped"),
        (
            "error",
            "nodes",
            "c2",
            "Slurm (inherited environment, --export=NONE)",
            "unreachable: Slurm: down: slurmd-stopped",
        ),
    ]


@pytest.mark.slow
@pytest.mark.soak
def test_slurm_that_does_not_answer(audited: Audited) -> None:
    cluster = audited.cluster
    pid = cluster.exec("login", ["pgrep", "-x", "slurmctld"]).stdout.strip()
    cluster.exec("login", ["kill", "-STOP", pid], check=True)
    try:
        done = long_enough(
            lambda limit: cluster.envmgr(["audit", *BOTH, "--deadline", str(limit)]),
            lambda done: done.code == 1 and "no end in" not in done.stdout,  # else no node has answered within it
            first=10,
        )
    finally:
        cluster.exec("login", ["kill", "-CONT", pid], check=True)
        cluster.wait_idle()
    assert "error[nodes] c[1-3]: Slurm" in done.stdout
    assert "error[slurm] here: Slurm\n  found     slurmctld does not answer: " in done.stdout


def test_busy_node_is_a_note_and_no_error(audited: Audited) -> None:
    cluster = audited.cluster
    cluster.write_site(transport={**settings(cluster.compute)["transport"], "queue_timeout": 1})
    busy = cluster.start("login", ["srun", "-Q", "--exclusive", "-w", "c2", "sleep", "1268"])
    try:
        wait_for(lambda: cluster.slurm_state("c2") == "allocated", what="the job on c2")
        found = audited.audit(*BOTH, "--nodes", "c2", code=0)["findings"]
    finally:
        cluster.sh("login", "scancel --state=RUNNING --user=root")
        busy.communicate(timeout=DEADLINE)
        cluster.wait_idle()
        cluster.write_site()
    assert [(f["severity"], f["nodes"], f["where"], f["found"], f["hint"]) for f in found] == [
        (
            "note",
            "c2",
            "Slurm (inherited environment, --export=NONE)",
            "busy: the job did not start within 1 s; the node was allocated",
            "`transport: {slurm_options: [--qos=…]}` in site.yaml, --reservation or --oversubscribe, gets a job in",
        )
    ]


def test_nodes_with_a_domain_are_found_by_slurms_names(audited: Audited) -> None:
    audited.cluster.write_site(transport={**settings(audited.cluster.compute)["transport"], "via": "slurm"})
    try:
        result = audited.audit("--nodes", "c[1-2].cluster.example", *IN_JOBS, code=0)
    finally:
        audited.cluster.write_site()
    assert [asked["answered"] for asked in result["asked"]] == ["c[1-2].cluster.example"] * 2
    assert result["findings"] == []


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def test_login_nodes_that_slurm_names_are_asked_where_the_site_names_none(audited: Audited) -> None:
    """Jobs may be sent from c3 only, beside this host: what its shells export goes into every job."""
    cluster, line = audited.cluster, "/etc/profile.d/zzz-export.sh"
    cluster.write_site(groups={"nodes": {"nodes": "c[1-2]"}})
    cluster.exec("login", ["scontrol", "update", "PartitionName=all", "AllocNodes=login,c3"], check=True)
    cluster.write("c3", line, "export SBATCH_EXPORT=NONE\n")
    try:
        found = audited.causes("--via", "both", "--context", "bash-login", *IN_JOBS, code=1)
    finally:
        cluster.exec("c3", ["rm", line], check=True)
        cluster.exec("login", ["scontrol", "update", "PartitionName=all", "AllocNodes=ALL"], check=True)
        cluster.write_site()
    assert [(nodes, where) for _, nodes, where in found if nodes] == [("c3", line)]
