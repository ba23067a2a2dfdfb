"""`envmgr _build-item`, which `build --via slurm` runs on nodes: it needs no site file."""

from __future__ import annotations

from pathlib import Path

from envmgr.builds.slurm.job import BuildJobResult, run_build_job
from envmgr.cli.progress import PlainReporter
from envmgr.steps.opening import stop_by_signals
from envmgr.system.run import Runner


def build_item(request: Path) -> BuildJobResult:
    """Run one job of `build --via slurm` on its node. Its log is stderr."""
    runner = Runner()
    stop_by_signals(runner)
    return run_build_job(request, runner, PlainReporter())
