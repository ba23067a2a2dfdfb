"""Smoke tests and verifications as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envmgr.cli.render import out
from envmgr.wording import counted

if TYPE_CHECKING:
    from envmgr.commands.test import NodeTestResult, TestResult
    from envmgr.commands.verify import VerifyResult
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
        how = f"({test.detail})" if test.status in _REASONED else f"in {test.seconds:.1f} s"
        out(f"test {test.entry} `{test.test}`: {_MARKS[test.status]} {how}")
        if test.status == "failed":
            for line in test.detail.splitlines()[-12:]:
                out(f"  {line}")


def show_verify(result: VerifyResult) -> None:
    for finding in result.findings:
        on = f"{finding.nodes}: " if finding.nodes else ""
        out(f"{finding.severity}[{finding.check}]: {on}{finding.where}: {finding.found}")
    for hint in dict.fromkeys(f.hint for f in result.findings if f.hint):
        out(f"hint: {hint}")
    for line in result.not_looked_at:
        out(f"not looked at: {line}")
    for path, places in result.made_at.items():
        where = ", ".join(places)
        out(f"not reproducible: {path}: built in {where}: elsewhere, or by another user, its files may differ")
    for line in result.repaired:
        out(f"{'would make' if result.dry_run else 'made'} again: {line}")
    if result.generation is not None:
        out(f"generation {result.generation} is current")
    if result.flip:
        out(result.flip)
    on = f", on {result.nodes}" if result.nodes else ", on no node" if result.not_verified else ""
    wrong = {f.where.split("/")[1] for f in result.findings if f.check == "generation"}
    out(f"{counted(len(result.generations), 'generations')} verified{on}, {_differ(len(wrong), 'record')}")
    bad = {f.where for f in result.findings if f.check == "install"}
    out(f"{counted(len(result.checked), 'installs')} verified{on}, {_differ(len(bad), 'manifest')}")
    if result.not_verified:
        out(f"not verified: {result.not_verified}")


def _differ(count: int, of: str) -> str:
    return f"{count} {'differs from its' if count == 1 else 'differ from their'} {of}"
