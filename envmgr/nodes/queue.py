"""All users' jobs that Slurm has not ended: whose, since when, and what is known of the environment that each was given."""

from __future__ import annotations

import calendar
import time
from dataclasses import dataclass

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.nodes.jobs import run_slurm, unavailable, where_jobs_go
from envmgr.nodes.slurm import UNCONFIGURED
from envmgr.nodes.tools import tool, tool_env
from envmgr.system.run import Runner

_TIME = "%Y-%m-%dT%H:%M:%S"
_ENV = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}  # times without a zone; see squeue(1)


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """`submitted` is seconds since the epoch, None where Slurm does not tell it; `state` as Slurm writes it."""

    number: str
    user: str
    state: str
    submitted: float | None

    def __str__(self) -> str:
        return f"job {self.number} of {self.user} ({self.state.lower()})"


def queued_jobs(site: Site, runner: Runner) -> list[QueuedJob] | None:
    """Jobs of all users that wait, run or end; None on a host that has Slurm's commands and belongs to no cluster of it.

    Raises:
        EnvmgrError: `slurm-unavailable`, `command-missing`.
    """
    argv = [tool("squeue"), "-h", "--all", "-o", "%i|%u|%T|%V", *where_jobs_go(site)]
    try:
        done = run_slurm(runner, argv, env=tool_env() | _ENV)
    except EnvmgrError as error:
        if UNCONFIGURED in error.message:
            return None
        raise
    if done.returncode:
        raise unavailable(done)
    return [job for line in done.stdout.splitlines() if (job := _job(line)) is not None]


def _job(line: str) -> QueuedJob | None:
    """None for the name of a cluster, which squeue prints above its jobs."""
    fields = [field.strip() for field in line.split("|")]
    return QueuedJob(fields[0], fields[1], fields[2], _seconds(fields[3])) if len(fields) == 4 else None


def _seconds(text: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(text, _TIME)))
    except ValueError:
        return None
