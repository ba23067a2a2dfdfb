"""Slurm's rows of nodes: what is read of `scontrol show node -o`, and what of it is a difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from envmgr.audit.checks import get_check
from envmgr.audit.controller import SlurmView
from envmgr.audit.inventory.differences import differences
from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.inventory.places import places_of
from envmgr.audit.judge import judge
from envmgr.audit.model import Evidence
from envmgr.nodes.envelope import Reply
from envmgr.nodes.slurm import node_rows
from envmgr.system.run import Runner
from tests.helpers.evidence import evidence

# As Slurm 22.05 and 23.11 print it: words behind keys, two blanks, keys that the other one lacks.
SLURM_22 = (
    "NodeName=c1 Arch=x86_64 CoresPerSocket=16  CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=0.01 AvailableFeatures=(null) "
    "ActiveFeatures=(null) Gres=(null) NodeAddr=c1 NodeHostName=c1 Version=22.05.8 OS=Linux 6.1.0-18-amd64 #1 SMP "
    "PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)  RealMemory=250000 AllocMem=0 FreeMem=8524 Sockets=2 Boards=1 State=IDLE "
    "ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=all,long  BootTime=2026-06-25T09:05:36 "
    "SlurmdStartTime=2026-07-08T10:05:26 LastBusyTime=2026-08-24T02:01:17 CfgTRES=cpu=64,mem=250000M,billing=64 AllocTRES= "
    "CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s"
)
SLURM_23 = (
    "NodeName=g1 Arch=x86_64 CoresPerSocket=24  CPUAlloc=32 CPUEfctv=96 CPUTot=96 CPULoad=5.06 AvailableFeatures=a100,intel "
    "ActiveFeatures=a100 Gres=gpu:a100:4(S:0-1) NodeAddr=g1 NodeHostName=g1 Version=23.11.6 OS=Linux 5.14.0-687.el9.x86_64 #1 "
    "SMP Tue Jun 2 11:33:56 EDT 2026  RealMemory=750000 AllocMem=393216 FreeMem=8524 Sockets=2 Boards=1 "
    "State=MIXED+DRAIN+MAINTENANCE+RESERVED+NOT_RESPONDING ThreadsPerCore=2 TmpDisk=6900000 Weight=9 Owner=alice(1000) MCS_label=N/A "
    "Partitions=gpu  BootTime=2026-06-25T09:05:36 SlurmdStartTime=2026-07-08T10:05:26 ResumeAfterTime=None "
    "CfgTRES=cpu=96,mem=750000M,gres/gpu=4 AllocTRES=cpu=32,mem=384G,gres/gpu=4 CurrentWatts=0 AveWatts=0 "
    "ReservationName=repair Reason=disk: State=IDLE Weight=0 [root@2026-11-02T10:00:00] Comment=Gres=none"
)
COMMON = {
    "RealMemory": "250000",
    "Weight": "1",
    "Version": "22.05.8",
    "Partitions": "all,long",
    "CPUs": "64 (2 x 16 x 2)",
}
IDLE = ("idle", "")
OWN = {f"{host}.x": {"host": host} for host in ("c1", "c2", "c3")}


def rows(folder: Path, text: str, status: int = 0) -> dict[str, dict[str, str]]:
    (folder / "scontrol").write_text(f"#!/bin/sh\ncat <<'X'\n{text}\nX\nexit {status}\n")
    (folder / "scontrol").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return node_rows(Runner())


def test_rows_of_real_slurms(tmp_path: Path) -> None:
    gpus = {"Partitions": "gpu", "Features": "a100,intel", "ActiveFeatures": "a100", "Gres": "gpu:a100:4(S:0-1)"}
    gpus |= {"RealMemory": "750000", "Weight": "9", "Version": "23.11.6", "CPUs": "96 (2 x 24 x 2)"}
    assert rows(tmp_path, f"{SLURM_22}\n{SLURM_23}") == {"c1": COMMON, "g1": gpus | {"State": "MAINTENANCE+RESERVED"}}
    nowhere = SLURM_22.replace("Partitions=all,long ", "").replace("State=IDLE", "State=IDLE+DRAIN+PLANNED")
    assert rows(tmp_path, nowhere) == {"c1": {key: value for key, value in COMMON.items() if key != "Partitions"}}
    assert rows(tmp_path, "You are not allowed to see nodes", 1) == {}


@pytest.mark.parametrize(
    "state", ["IDLE", "ALLOCATED", "MIXED+PLANNED", "IDLE+COMPLETING", "MIXED*", "IDLE+POWERED_DOWN"]
)
def test_state_that_comes_with_jobs_is_none(state: str, tmp_path: Path) -> None:
    assert rows(tmp_path, SLURM_22.replace("State=IDLE", f"State={state}")) == {"c1": COMMON}


def seen(odd: Mapping[str, str], *, states: Mapping[str, tuple[str, str]] | None = None) -> Evidence:
    """Three nodes, with a domain; the second has the row `odd`."""
    view = SlurmView(states or dict.fromkeys(("c1", "c2", "c3"), IDLE), "", {"c1": COMMON, "c2": odd, "c3": COMMON})
    given = evidence(
        {key: {"inventory.looked.node": "yes", "inventory.looked.login": "yes"} for key in OWN},
        own=OWN,
        slurm=view.states,
    )
    return replace(given, slurm=view)


def report(given: Evidence) -> list[str]:
    checks = {name: get_check(name) for name in ("inventory", "slurm", "nodes")}
    made = judge(given, checks)
    return [
        " > ".join([f"{f.severity} {f.nodes}: {f.where}: {f.found} | {f.hint}", *(c.found for c in f.consequences)])
        for f in made.findings
    ]


def without(key: str) -> dict[str, str]:
    return {name: value for name, value in COMMON.items() if name != key}


@pytest.mark.parametrize(
    ("odd", "line"),
    [
        (COMMON, []),
        (without("Version"), []),  # slurmd has not come up yet
        (
            without("Partitions"),
            [
                (
                    "warning c2.x: slurm Partitions: no partition of Slurm has the node; all,long on others | "
                    "PartitionName=all,long in slurm.conf must name it, then `scontrol reconfigure`"
                )
            ],
        ),
        (
            COMMON | {"State": "RESERVED"},
            [
                (
                    "note c2.x: slurm State: Slurm has the node as RESERVED | "
                    "`scontrol show reservation` and `scontrol show node`: is that still wanted?"
                )
            ],
        ),
        (
            COMMON | {"RealMemory": "1"},
            [
                (
                    "note c2.x: slurm RealMemory: Slurm: RealMemory is 1; 250000 on others | its line in slurm.conf (NodeName=, "
                    "PartitionName=), then `scontrol reconfigure`; `scontrol show node` shows what holds now"
                )
            ],
        ),
    ],
)
def test_rows_are_compared_between_like_nodes(odd: dict[str, str], line: list[str]) -> None:
    assert report(seen(odd)) == line


def test_gpu_that_one_node_has_more_is_a_note_and_one_that_it_lacks_is_a_warning() -> None:
    of = seen(COMMON | {"Gres": "gpu:1"})
    (more,) = differences(places_of(of), of)
    assert KINDS["slurm"].told(more.key, more.value, more.right, "c2")[0] == "note"
    assert KINDS["slurm"].told(more.key, more.right, more.value, "c2")[0] == "warning"


def test_down_node_comes_from_a_slurmd_that_does_not_run_and_a_drained_one_from_nothing() -> None:
    def given(state: str) -> Evidence:
        base = seen(COMMON, states={"c1": IDLE, "c2": (state, "disk"), "c3": IDLE})
        facts = {"inventory.looked.node": "yes", "inventory.looked.login": "yes", "inventory.daemon": r"slurmd\truns"}
        odd = facts | {"inventory.daemon": r"slurmd\tdoes not run"}
        ssh = evidence({"c1.x": facts, "c2.x": odd, "c3.x": facts}, own=OWN).fleet
        lost = Reply("c2.x", "unreachable", "", f"Slurm: {state}: disk", 0.0, 1.0)
        return replace(base, ways={"ssh": ssh, "slurm": replace(ssh, groups=(), missing=(lost,))})

    assert report(given("down")) == [
        "error c2.x: daemon slurmd: slurmd does not run here, and runs on others | make it as on c1.x > down: disk > unreachable: Slurm: down: disk"
    ]
    drained, daemon = report(given("drained"))
    assert drained == (
        "error c2.x: Slurm: drained: disk | `scontrol update nodename=c2 state=resume`, once that is fixed > "
        "unreachable: Slurm: drained: disk"
    )
    assert daemon.startswith("warning c2.x: daemon slurmd: ")
