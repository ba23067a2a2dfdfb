"""Options of Slurm jobs."""

from __future__ import annotations

import pytest

from envmgr.nodes.jobs import JobOptions


@pytest.mark.parametrize("time", ["90", "90:00", "1:30:00", "2-12", "2-12:30", "2-12:30:15", "UNLIMITED"])
def test_times_of_slurm_are_taken(time: str) -> None:
    JobOptions(time=time).check()
