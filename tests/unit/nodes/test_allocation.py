"""What salloc says when it gives no nodes: whose turn it is."""

from __future__ import annotations

import pytest

from envmgr.nodes.allocation import _refused


@pytest.mark.parametrize(
    ("said", "reference"),
    [
        ("salloc: error: Unable to allocate resources: Connection timed out", "job-not-started"),
        ("salloc: error: Unable to allocate resources: Requested nodes are busy", "job-not-started"),
        (
            "salloc: error: Job submit/allocate failed: Immediate execution impossible, insufficient priority",
            "job-not-started",
        ),
        ("salloc: error: Job allocation 12 has been revoked", "job-not-started"),
        ("salloc: error: Job submit/allocate failed: Requested node configuration is not available", "job-refused"),
        (
            "salloc: error: Job submit/allocate failed: Invalid account or account/partition combination specified",
            "job-refused",
        ),
        ("salloc: error: Unable to contact slurm controller (connect failure)", "slurm-unavailable"),
        ("", "job-refused"),
    ],
)
def test_reason_is_told_by_who_must_act(said: str, reference: str) -> None:
    error = _refused(said, 2, ["c1", "c2", "c3"], ["--partition=gpu"], 60)
    assert (error.reference, error.exit_code) == (reference, 3)
    shown = error.render()
    assert "salloc: " not in shown
    assert ("--partition=gpu" in shown) is (reference != "slurm-unavailable")
