"""An entry's own tests, through its staged module here or through the published one on nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from envmgr.report import Lines


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


REASONED = ("skipped", "not-run")
"""The ends whose `detail` is the reason."""
MARKS = {"passed": "ok", "failed": "FAILED", "skipped": "not tried", "not-run": "not run"}
_SHOWN = 12  # last lines of a failed test


def outcome_lines(tests: Iterable[SmokeOutcome]) -> Lines:
    """Yield the ends of tests on one machine as text."""
    for test in tests:
        how = f"({test.detail})" if test.status in REASONED else f"in {test.seconds:.1f} s"
        yield f"test {test.entry} `{test.test}`: {MARKS[test.status]} {how}"
        yield from failed_lines(test)


def failed_lines(test: SmokeOutcome) -> Lines:
    """Yield the end of a failed test's output."""
    if test.status == "failed":
        yield from (f"  {line}" for line in test.detail.splitlines()[-_SHOWN:])
