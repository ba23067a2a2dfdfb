"""Audits as text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from envmgr.cli.render import out, table
from envmgr.nodes.sets import expand
from envmgr.wording import counted

if TYPE_CHECKING:
    from envmgr.commands.audit import AuditResult, ExplainResult
    from envmgr.finding import Finding


def show_audit(result: AuditResult) -> None:
    """Print findings as blocks, worst first; then one line that sums up."""
    generation = f"generation {result.generation}" if result.generation is not None else "no generation"
    what = "modules of this cluster" if result.alone else f"{generation}, {counted(len(result.entries), 'entries')}"
    ways = " and ".join(sorted({"Slurm" if a.way.startswith("slurm") else a.way for a in result.asked}, reverse=True))
    out(f"{what}; {result.nodes} by {ways} in {result.seconds:.1f} s")
    if result.contexts:
        out(f"contexts: {', '.join(result.contexts)} ({', '.join(result.accounts)})")
    for finding in result.findings:
        out()
        _finding(finding)
    if result.matrix:
        out()
        table(
            [[row.entry, _RUNS[row.fit], row.nodes, ", ".join(row.reasons)] for row in result.matrix],
            header=["entry", "runs", "nodes", "why"],
        )
    out()
    out(_summary(result))


_RUNS = {True: "yes", False: "no", None: "not known"}


def show_explain(result: ExplainResult) -> None:
    out(result.text)


def place(finding: Finding) -> str:
    """Return the nodes of which it is true."""
    return finding.nodes or (f"{finding.between} differ" if finding.between else "here")


def why_no_comparison(result: AuditResult) -> str:
    """Return what an audit lacked that could compare nothing (exit code 3)."""
    if result.generation is None and not result.alone:
        return "this host cannot read the published generation"
    return "no node answered"


def _finding(finding: Finding) -> None:
    out(f"{finding.severity}[{finding.check}] {place(finding)}: {finding.where}")
    rows = [("  found", finding.found), ("  expected", finding.expected), ("  hint", finding.hint)]
    table([row for row in rows if row[1]])


_PROOF = {"contexts", "resolution", "loading"}
_ALONE = {"contexts", "resolution", "modulefiles", "site-modules"}


def _summary(result: AuditResult) -> str:
    """Return one line; it claims agreement only where that was looked at, everywhere."""
    count = Counter(f.severity for f in result.findings)
    words = [counted(count[s], f"{s}s") for s in ("error", "warning", "note") if count[s]]
    if count["error"] or count["warning"] or (result.generation is None and not result.alone):
        return f"{', '.join(words)}; `envmgr audit --explain CHECK` says what a check does"
    notes = f" ({', '.join(words)})" if words else ""
    if not set(result.checks) >= (_ALONE if result.alone else _PROOF):
        return f"no findings by {', '.join(result.checks)}{notes}"
    everywhere = set.intersection(*(set(expand(asked.answered)) for asked in result.asked))
    if not everywhere:
        return f"no node answered in every way{notes}"
    if result.alone:
        return _alone(result, len(everywhere), notes)
    generation = f"generation {result.generation}{notes}"
    if len(everywhere) < result.count:  # the others are busy, or asleep
        answered = f"{len(everywhere)} of {result.count} nodes answered in every way"
        return f"{answered}, and resolve the same modules: {generation}"
    if result.count == 1:
        return f"{result.nodes} resolves the published modules: {generation}"
    return f"all {result.count} nodes resolve the same modules: {generation}"


def _alone(result: AuditResult, everywhere: int, notes: str) -> str:
    if result.count == 1:
        return f"{result.nodes}: no findings, and no other node to compare it with{notes}"
    if everywhere < result.count:
        return f"{everywhere} of {result.count} nodes answered in every way, and have the same modules{notes}"
    return f"all {result.count} nodes have the same modules{notes}"
