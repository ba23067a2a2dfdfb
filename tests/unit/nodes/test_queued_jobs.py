"""All jobs of Slurm, by what its squeue prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.catalog.site import Site, load_site
from envmgr.errors import EnvmgrError
from envmgr.nodes.jobs import QueuedJob, queued_jobs
from envmgr.system.run import Runner

SITE: Site = load_site(None, {"XDG_DATA_HOME": "/nowhere"})


def squeue(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (folder / "squeue").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_jobs_of_all_users_with_the_time_of_their_submission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["CLUSTER: west", "7|alice|RUNNING|2026-01-02T03:04:05", "8_[1-9]|bob|PENDING|N/A"]
    squeue(tmp_path, monkeypatch, f"[ \"$TZ $1 $2\" = 'UTC -h --all' ] && printf '%s\\n' {' '.join(map(repr, lines))}")
    jobs = queued_jobs(SITE, Runner())
    assert jobs == [QueuedJob("7", "alice", "RUNNING", 1767323045.0), QueuedJob("8_[1-9]", "bob", "PENDING", None)]
    assert str(jobs[0]) == "job 7 of alice (running)"


def test_host_of_no_cluster_has_no_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue(tmp_path, monkeypatch, "echo 'squeue: fatal: Could not establish a configuration source' >&2; exit 1")
    assert queued_jobs(SITE, Runner()) is None


@pytest.mark.parametrize(
    "said", ["squeue: error: slurm_receive_msg: Socket timed out on send/recv operation", "squeue: error: no"]
)
def test_slurm_that_does_not_answer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    squeue(tmp_path, monkeypatch, f"echo '{said}' >&2; exit 1")
    with pytest.raises(EnvmgrError, match="Slurm does not answer") as caught:
        queued_jobs(SITE, Runner())
    assert caught.value.reference == "slurm-unavailable"
