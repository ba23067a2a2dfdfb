"""An entry's own tests, through its staged module here or through the published one on nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SmokeOutcome:
    """One test's end. `detail` is the end of a failed test's output, or why it was not run; `seconds` is wall-clock.

    `skipped`: where it was to run, it lacks something. `not-run`: it needs more nodes than it was given.
    """

    entry: str
    test: str
    status: Literal["passed", "failed", "skipped", "not-run"]
    detail: str
    seconds: float


def too_few(entry: str, needed: int) -> str:
    """Return why a test of several nodes is not run, and what runs it."""
    return f"it needs {needed} nodes: `envmgr test {entry} --via slurm -N {needed}`"
