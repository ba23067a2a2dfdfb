"""How smoke tests look."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envmgr.cli.render import out
from envmgr.wording import counted

if TYPE_CHECKING:
    from envmgr.commands.test import NodeTestResult, TestResult
    from envmgr.smoke import SmokeOutcome

_MARKS = {"passed": "ok", "failed": "FAILED", "skipped": "not tried", "not-run": "not run"}
_REASONED = ("skipped", "not-run")  # whose detail is why


def show_tests(result: TestResult) -> None:
    show_outcomes(result.tests)
    out(f"generation {result.generation}")


def show_node_tests(result: NodeTestResult) -> None:
    for test in result.tests:
        fastest, slowest = f"{test.fastest:.1f}", f"{test.seconds:.1f}"
        known = test.detail if test.status in _REASONED else f"{fastest}{f'-{slowest}' * (slowest != fastest)} s"
        status = _MARKS[test.status] if test.status in _REASONED else test.status
        out(f"{test.entry} {test.test}: {status}{f' on {test.nodes}' if test.nodes else ''} ({known})")
        if test.status == "failed":
            for line in test.detail.splitlines()[-12:]:
                out(f"  {line}")
    for missing in result.missing:
        out(f"{missing.status}: {missing.nodes}: {missing.reason}")
    way = "Slurm" if result.via == "slurm" else result.via
    out(f"generation {result.generation}, on {counted(result.count, 'nodes')} by {way}, as {result.user}")


def show_outcomes(tests: Iterable[SmokeOutcome]) -> None:
    for test in tests:
        out(
            f"test {test.entry} `{test.test}`: {_MARKS[test.status]}{f' ({test.detail})' if test.status in _REASONED else f' in {test.seconds:.1f} s'}"
        )
        if test.status == "failed":
            for line in test.detail.splitlines()[-12:]:
                out(f"  {line}")
