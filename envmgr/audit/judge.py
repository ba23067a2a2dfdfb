"""All checks judge what was gathered: findings, each once, with all nodes that it is true of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from envmgr.audit.model import Check, Evidence
from envmgr.finding import Finding
from envmgr.nodes import expand, fold


def judge(evidence: Evidence, checks: Mapping[str, Check]) -> tuple[Finding, ...]:
    """All findings: errors first, then by check, place and nodes."""
    order = {"error": 0, "warning": 1, "note": 2}
    findings = [finding for check in checks.values() for finding in check.judge(evidence)]
    findings += _not_here(evidence)
    nodes: dict[Finding, list[str]] = {}
    for finding in findings:  # one, for nodes whose answers differ in something else
        nodes.setdefault(replace(finding, nodes=""), []).extend(expand(finding.nodes) if finding.nodes else ())
    findings = [replace(finding, nodes=fold(of)) for finding, of in nodes.items()]
    return tuple(sorted(findings, key=lambda f: (order[f.severity], f.check, f.where, f.nodes, f.found)))


def _not_here(evidence: Evidence) -> Iterable[Finding]:
    if evidence.published is not None:
        return
    prefix, gate = str(evidence.site.prefix), evidence.controller.get("gate", "hung")
    expected = "a published generation to compare with"
    if gate.startswith("no link"):
        found, hint = (
            f"nothing is published there: {gate}",
            "`envmgr build ENTRY` publishes; or is it not mounted here?",
        )
    else:
        found = (
            f"this host cannot read the published generation: {'does not answer' if gate in ('hung', 'ok') else gate}"
        )
        hint = "mount the prefix here, or audit from a host that has it"
    yield Finding("generation", "error", prefix, found, expected, hint)
