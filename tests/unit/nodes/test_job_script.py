"""The script of a batch job, without Slurm: what a cancelled job ends and removes, whenever that happens."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.nodes.batch import job_script
from envmgr.nodes.envelope import unwrap
from envmgr.system.processes import group_runs
from tests.helpers.scripts import begins_slowly
from tests.helpers.waiting import soon

SHELLS = ["sh", "bash"]


class Job:
    """A job as slurmd starts it: in a session of its own, with the file of its script."""

    def __init__(self, shell: str, script: str, folder: Path) -> None:
        self.nonce = folder.name
        self.places = [Path(f"{base}/envmgr-{self.nonce}-1") for base in ("/tmp", "/dev/shm")]
        file = folder / "job"
        file.write_text(job_script(script, f"#!/bin/{shell}", self.nonce, "inner", limit=999), encoding="utf-8")
        null = subprocess.DEVNULL
        self.process = subprocess.Popen(
            [f"/bin/{shell}", file],
            stdin=null,
            stdout=null,
            stderr=null,
            env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": "1"},
            start_new_session=True,
        )

    @property
    def left(self) -> list[Path]:
        return [path for path in self.places if path.exists()]

    def signal(self) -> None:
        """Do what Slurm does first with a job that is cancelled: SIGTERM, once, to what runs now."""
        os.killpg(self.process.pid, signal.SIGTERM)

    def is_gone(self) -> bool:
        return self.process.poll() is not None and not group_runs(self.process.pid) and not self.left


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[list[Job]]:
    started: list[Job] = []
    yield started
    for job in started:
        if group_runs(job.process.pid):
            os.killpg(job.process.pid, signal.SIGKILL)
        job.process.wait()
        for path in job.left:
            subprocess.run(["rm", "-rf", path], check=True)


@pytest.fixture
def named(tmp_path: Path) -> Path:
    folder = tmp_path / f"{os.getpid()}{os.urandom(4).hex()}"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("shell", SHELLS)
def test_cancelled_job_ends_a_script_that_missed_the_signal(shell: str, jobs: list[Job], named: Path) -> None:
    file = named / "f"
    jobs.append(job := Job(shell, begins_slowly(file), named))
    assert soon(file.exists)
    job.signal()
    assert soon(job.is_gone), job.left
    assert job.process.returncode == 143
    assert not file.exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_cancelled_job_waits_for_a_script_that_tidies_up(shell: str, jobs: list[Job], named: Path) -> None:
    file = named / "f"
    tidy = f"trap 'trap \"\" TERM; sleep 1.5; rm {file}; exit 1' TERM"
    jobs.append(job := Job(shell, f"{tidy}; touch {file}; sleep 1299", named))
    assert soon(file.exists)
    job.signal()
    assert soon(job.is_gone), job.left
    assert not file.exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_cancelled_job_does_not_keep_its_answer(shell: str, jobs: list[Job], named: Path) -> None:
    jobs.append(job := Job(shell, "echo done", named))
    (whole,) = (place / "whole" for place in job.places[:1])
    assert soon(whole.exists)
    assert unwrap(whole.read_bytes(), "inner").text == "done\n"
    job.signal()
    assert soon(job.is_gone), job.left
    assert job.process.returncode == 143


@pytest.mark.parametrize("shell", SHELLS)
def test_job_whose_answer_was_being_taken_does_not_wait_for_another(shell: str, jobs: list[Job], named: Path) -> None:
    """An audit that is interrupted then may find no time to cancel the job."""
    jobs.append(job := Job(shell, "echo done", named))
    place = job.places[0]
    assert soon((place / "whole").exists)
    taker = subprocess.Popen(["sleep", "1299"])
    (place / "taker~").write_text(f"{taker.pid}\n")
    (place / "taker~").rename(place / "taker")
    assert soon((place / "seen").exists)
    assert not job.is_gone()
    taker.kill()
    taker.wait()
    assert soon(job.is_gone), job.left


@pytest.mark.parametrize("moment", range(12))
def test_cancelled_job_leaves_nothing_whenever_that_happens(moment: int, jobs: list[Job], named: Path) -> None:
    """From before its folder is there to after its script began, a few thousandths of a second apart."""
    file = named / "f"
    ends = 'trap "" TERM'
    script = f"trap '{ends}; rm -f {file}' EXIT; trap '{ends}; exit 1' TERM; touch {file}; sleep 1299"
    jobs.append(job := Job("bash", script, named))
    subprocess.run(["sleep", str(moment * 0.004)], check=True)
    job.signal()
    assert soon(job.is_gone), job.left
    assert not file.exists()


def test_many_jobs_are_cancelled_at_once_and_none_stays(jobs: list[Job], tmp_path: Path) -> None:
    """A trap of bash that interrupts a `wait` and waits itself for the same child may do so for ever: on a busy machine one in twelve."""
    for number in range(40):
        folder = tmp_path / f"{os.getpid()}{os.urandom(4).hex()}{number}"
        folder.mkdir()
        jobs.append(Job("bash", "sleep 1267", folder))
    for job in jobs:
        answer = job.places[0] / "answer"
        assert soon(lambda answer=answer: answer.exists() and answer.stat().st_size > 0)
        job.signal()
    for job in jobs:
        assert soon(job.is_gone), job.left
