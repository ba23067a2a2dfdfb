"""How long a job of envmgr's may take in its partition, and which reasons no wait ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.nodes.slurm import is_busy, longest_job, time_limit
from envmgr.system.run import Runner

SINFO = "short*|30:00\nday|1-00:00:00\nlong|infinite\nhours|2:00:00\n"


def sinfo(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (folder / "sinfo").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ((), 1800),
        (("--partition=day",), 86400),
        (("--partition=long",), None),
        (("--partition=hours,short",), 7200),
        (("--partition=short,long",), None),
        (("--partition=nosuch",), None),
    ],
)
def test_longest_job_is_the_partitions(
    options: tuple[str, ...], seconds: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinfo(tmp_path, monkeypatch, f"printf '%s' '{SINFO}'")
    assert longest_job(Runner(), options) == seconds


def test_where_slurm_does_not_say_there_is_no_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sinfo(tmp_path, monkeypatch, "exit 1")
    assert longest_job(Runner(), ()) is None


def test_time_limit_is_never_more_than_the_partition_has() -> None:
    asked = (time_limit(3613), time_limit(3613, 1800), time_limit(60, 1800), time_limit(60, 30))
    assert asked == ("62", "30", "2", "1")


@pytest.mark.parametrize(
    "why",
    [
        "PartitionTimeLimit",
        "QOSMaxWallDurationPerJobLimit",
        "AssocMaxWallDurationPerJobLimit",
        "Job's account not known",
    ],
)
def test_limit_of_slurms_is_no_busy_node(why: str) -> None:
    assert not is_busy("mixed", why)
    assert is_busy("mixed", "None")
    assert is_busy("idle", "Priority")
