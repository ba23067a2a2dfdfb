"""Options of Slurm jobs, by the command line."""

from __future__ import annotations

import pytest

from tests.helpers.sandbox import Sandbox

TIMES = "minutes, or hours:minutes:seconds, or days-hours: 90, 1:30:00, 2-12"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--cpus", "4"], "--cpus is for Slurm jobs\n\nhint: add `--via slurm`"),
        (["--via", "local", "--account", "x"], "--account is for Slurm jobs\n\nhint: add `--via slurm`"),
        (["--via", "slurm", "-j", "4"], "--jobs is for builds on this host\n\nhint: --cpus is what each job gets"),
        (["--via", "slurm", "--time", "2h"], f"--time `2h` is not a time as Slurm writes it\n\nhint: {TIMES}"),
        (["--via", "slurm", "--partition", "-x"], "--partition `-x` is not a name that Slurm could know"),
    ],
)
def test_options_of_jobs_are_checked_first(sandbox: Sandbox, options: list[str], text: str) -> None:
    done = sandbox.run("build", "none/1.0", *options)
    assert (done.code, done.stdout, done.stderr) == (2, "", f"error[bad-job-option]: {text}\n")
