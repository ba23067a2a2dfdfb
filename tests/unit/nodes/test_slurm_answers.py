"""What Slurm says of its nodes, why it does not, and the options that reach sbatch."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from envmgr.nodes.batch import _program
from envmgr.nodes.slurm import is_busy, slurm_names, states_or_reason, why_no_step
from envmgr.system.run import Runner
from tests.helpers.waiting import DEADLINE, HANGS


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "echo 'slurm_load_partitions: Unable to contact slurm controller (connect failure)' >&2; exit 1",
            "Unable to contact slurm controller (connect failure)",
        ),
        (
            (
                "printf 'sinfo: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\\n"
                "sinfo: fatal: Could not establish a configuration source\\n' >&2; exit 1"
            ),
            "Could not establish a configuration source",
        ),
        (f"exec sleep {HANGS}", "no answer in 0.5 s"),
    ],
)
def test_why_slurm_does_not_say_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    (tmp_path / "sinfo").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert states_or_reason(Runner(), 0.5 if "sleep" in script else DEADLINE) == ({}, reason)


@pytest.mark.parametrize(
    ("state", "why", "busy"),
    [
        ("allocated", "", True),
        ("mixed", "None", True),
        ("completing", "", True),
        ("idle", "Resources", True),
        ("idle", "Priority", True),
        ("idle", "ReqNodeNotAvail, Reserved for maintenance", True),
        ("idle", "QOSMaxJobsPerUserLimit", True),
        ("idle", "ReqNodeNotAvail, UnavailableNodes:c2", True),
        ("idle", "BadConstraints", False),
        ("idle", "", False),
    ],
)
def test_a_node_is_busy_by_its_state_or_by_what_the_job_waits_for(state: str, why: str, *, busy: bool) -> None:
    assert is_busy(state, why) is busy


def test_node_that_saves_power_gets_no_job() -> None:
    assert why_no_step({"c1": ("idle~", "")}, "c1") == "asleep: Slurm saves its power (idle~)"
    assert why_no_step({"c1": ("idle", "")}, "c1") == ""


@pytest.mark.parametrize(
    ("known", "asked", "found"),
    [
        (["c1"], ["c1"], {"c1": "c1"}),
        (["c1", "c2"], ["c1.cluster.example"], {"c1.cluster.example": "c1"}),
        (["c1.cluster.example"], ["c1"], {"c1": "c1.cluster.example"}),
        (["c1"], ["c1.a.example", "c1.b.example"], {}),
        (["c1"], ["c1", "c1.a.example"], {"c1": "c1"}),
        (["c1.a.example"], ["c1.b.example"], {}),
        (["c1.a.example", "c1.b.example"], ["c1"], {}),
        (["c1"], ["c11.cluster.example", "login"], {}),
    ],
)
def test_slurms_name_of_a_node_is_found_where_it_is_unambiguous(
    known: list[str], asked: list[str], found: dict[str, str]
) -> None:
    assert slurm_names(known, asked) == found


def test_options_reach_sbatch_as_they_are(tmp_path: Path) -> None:
    """The shell is real; sbatch writes down what it is given."""
    (tmp_path / "sbatch").write_text('#!/bin/sh\ncat >/dev/null; printf "%s\\n" "$@" >"$HERE/argv"\n')
    (tmp_path / "sbatch").chmod(0o755)
    options = ["--comment=it's-$(id)", "--qos={high}", "--account=a;b"]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HERE": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", 'exec 89<&0; exec bash -c "$@"', "bash", _program(options), "mark", "c1"],
        env=env,
        input="#!/bin/sh\nmark\n",
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout == "\nmark c1 0 \n\nmark end\n"
    assert (tmp_path / "argv").read_text().splitlines() == [*options, "-w", "c1"]
