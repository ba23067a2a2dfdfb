"""What an audit asks before it sends jobs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from envmgr.errors import EnvmgrError, InputError
from envmgr.steps.audit import _can_send_jobs
from tests.helpers.evidence import site


@pytest.mark.skipif(os.geteuid() != 0, reason="only root submits as somebody else")
@pytest.mark.parametrize(
    ("settings", "user", "hint"),
    [
        ({"audit": {"user": "nobody-here"}}, "nobody-here", "name another: `audit: {user: …}` in site.yaml"),
        ({"transport": {"user": "not-here"}}, "not-here", "name another: `transport: {user: …}` in site.yaml"),
    ],
)
def test_user_whose_jobs_are_sent_must_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], user: str, hint: str
) -> None:
    for name in ("srun", "sbatch", "sinfo"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(InputError) as caught:
        _can_send_jobs(site(**settings))
    assert caught.value.render() == (
        f"error[unknown-user]: the user `{user}` does not exist here\n  jobs are submitted as that user\n\nhint: {hint}"
    )


def test_sbatch_that_is_missing_is_told_before_any_node_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvmgrError) as caught:
        _can_send_jobs(site())
    assert caught.value.render() == (
        "error[command-missing]: Slurm's commands are not here\n\nhint: --via ssh, or audit from a host of Slurm's"
    )
