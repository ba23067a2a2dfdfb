"""Which nodes get a job with a GPU, how it is asked for, and why others get none: by what Slurm prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.nodes.access import GpuJobs, SlurmGpus, choose_jobs, gpu_request, jobs_with_gpu, read_nodes
from envmgr.system.run import Runner

# As `scontrol -o -d show node` of Slurm 22.05 says it, without what nobody looks at.
NODE = "NodeName={} Arch=x86_64 CPUAlloc=0 AvailableFeatures=(null) Gres={} GresDrain=N/A GresUsed={} State=IDLE Partitions={}  CfgTRES=cpu=4"


@pytest.mark.parametrize(
    ("gres", "used", "counts"),
    [
        ("(null)", "gpu:0", (0, 0)),
        ("gpu:gtx1650:1", "gpu:gtx1650:0(IDX:N/A)", (1, 0)),
        ("gpu:gtx1650:1(S:0)", "gpu:gtx1650:1(IDX:0)", (1, 1)),
        ("gpu:a100:2(S:0,2),gpu:v100:1,shard:16", "gpu:a100:2(IDX:0-1),gpu:v100:0(IDX:N/A),shard:4", (3, 2)),
        ("gpu:4", "gpu:(null):3(IDX:0-2)", (4, 3)),
        ("gpu", "", (1, 0)),
        ("mic:2", "mic:1", (0, 0)),
    ],
)
def test_gpus_of_a_node_are_counted(gres: str, used: str, counts: tuple[int, int]) -> None:
    assert read_nodes(NODE.format("c1", gres, used, "all,gpu") + "\n") == {"c1": SlurmGpus(*counts, ("all", "gpu"))}


def test_node_in_no_partition() -> None:
    assert read_nodes("NodeName=c1 Gres=gpu:1 GresUsed=gpu:0 \nnoise") == {"c1": SlurmGpus(1, 0, ())}


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ((), "--gres=gpu:1"),
        (("--partition=gpu", "--gpu-bind=none"), "--gres=gpu:1"),
        (("--gres=none",), "--gres=gpu:1"),
        (("--gres=fs:1",), "--gres=fs:1,gpu:1"),
        (("--gres=gpu:a100:2",), "--gres=gpu:a100:2"),
        (("--gres=fs:1,gpu",), "--gres=fs:1,gpu"),
        (("--gres=gpu:2", "--gres=fs:1"), "--gres=fs:1,gpu:1"),
        (("--gpus=1",), "--gpus=1"),
        (("--gpus-per-node=1",), "--gpus-per-node=1"),
        (("--tres-per-node=gres/gpu:1",), "--tres-per-node=gres/gpu:1"),
    ],
)
def test_the_sites_own_options_may_ask_for_gpus_already(given: tuple[str, ...], option: str) -> None:
    assert gpu_request(given) == option
    jobs = choose_jobs(["c1"], {"c1": ("idle", "")}, {"c1": SlurmGpus(1, 0, ("all",))}, "all", given)
    assert jobs.options["c1"] == (() if option in given else (option,))


STATES = dict.fromkeys(("c1", "c2", "c3", "c4", "c5", "c8"), ("idle", "")) | {
    "c6": ("drained", "bad fan"),
    "c7": ("idle~", ""),
}
GPUS = {
    "c1": SlurmGpus(1, 0, ("all", "gpu")),
    "c2": SlurmGpus(4, 3, ("gpu", "long")),
    "c3": SlurmGpus(1, 1, ("all",)),
    "c4": SlurmGpus(4, 4, ("all",)),
    "c5": SlurmGpus(0, 0, ("all",)),
    "c6": SlurmGpus(1, 0, ("all",)),
    "c7": SlurmGpus(1, 0, ("all",)),
    "c8": SlurmGpus(1, 0, ()),
}


def test_jobs_go_where_a_gpu_is_free_and_others_are_told_why_not() -> None:
    assert choose_jobs([*GPUS, "c9"], STATES, GPUS, "all", ()) == GpuJobs(
        {"c1": ("--gres=gpu:1",), "c2": ("--gres=gpu:1", "--partition=gpu,long")},
        {
            "c3": "busy: its GPU is in use by another job",
            "c4": "busy: its 4 GPUs are in use by other jobs",
            "c5": "Slurm has no `gpu` among its Gres",
            "c6": "Slurm: drained: bad fan",
            "c7": "asleep: Slurm saves its power (idle~)",
            "c8": "Slurm has it in no partition",
            "c9": "no partition of Slurm has this node",
        },
    )


def test_the_sites_partition_wins_and_names_may_have_a_domain() -> None:
    jobs = choose_jobs(["c2.example"], {"c2": ("idle", "")}, GPUS, "all", ("--partition=long",))
    assert jobs == GpuJobs({"c2.example": ("--gres=gpu:1",)}, {})


def commands(folder: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    for name in ("srun", "sbatch", "sinfo", "scontrol"):
        if name in texts:
            (folder / name).write_text(f"#!/bin/sh\n{texts[name]}\n")
            (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/nowhere")
    monkeypatch.setattr("envmgr.nodes.clean_env", lambda: {"PATH": "/nowhere"})  # nothing of this machine's Slurm


SINFO = "case $* in *%P*) echo 'gpu'; echo 'all*' ;; *) echo 'c1|idle|none' ;; esac"
SCONTROL = f"echo '{NODE.format('c1', 'gpu:1', 'gpu:0', 'all')}'"


@pytest.mark.parametrize(
    ("texts", "jobs"),
    [
        ({}, GpuJobs({}, {"c1": "no Slurm here"})),
        (
            {"sinfo": "echo 'sinfo: fatal: Could not establish a configuration source' >&2; exit 1"},
            GpuJobs({}, {"c1": "no Slurm here"}),
        ),
        (
            {"sinfo": "echo 'slurm_load_partitions: Unable to contact slurm controller (connect failure)' >&2; exit 1"},
            GpuJobs({}, {"c1": "Slurm: Unable to contact slurm controller (connect failure)"}),
        ),
        ({"sinfo": SINFO}, GpuJobs({}, {"c1": "Slurm: cannot run `scontrol`"})),
        ({"sinfo": SINFO, "scontrol": "echo 'no' >&2; exit 1"}, GpuJobs({}, {"c1": "Slurm: no"})),
        ({"sinfo": SINFO, "scontrol": SCONTROL}, GpuJobs({"c1": ("--gres=gpu:1",)}, {})),
    ],
)
def test_slurm_is_asked_where_it_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: dict[str, str], jobs: GpuJobs
) -> None:
    if texts:
        texts = {"srun": "exit 1", "sbatch": "exit 1", **texts}
    commands(tmp_path, monkeypatch, **texts)
    assert jobs_with_gpu(["c1"], (), Runner(), timeout=60) == jobs
