"""The numbers of an audit, for the formats of programs that keep numbers over time. Pure.

Source of the names: Prometheus, "Metric and label naming".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from envmgr.errors import EnvmgrError, Interrupted
from envmgr.nodes.sets import expand
from envmgr.report import Finding, Severity

if TYPE_CHECKING:
    from envmgr.audit.result import AuditResult

MOST_NODES = 500  # nodes with series of their own: a broken cluster must not flood the server that watches it

Labels = Mapping[str, str]
Samples = Iterable[tuple[Labels, float]]

HELP = {
    "envmgr_audit_timestamp_seconds": "When the last audit ended or failed, in seconds since the epoch.",
    "envmgr_audit_success": "Whether the last audit could look: 1 also with findings, 0 when it failed "
    "(exit codes 2, 3, 4).",
    "envmgr_audit_error_info": "Why the last audit could not look: the reference of its error.",
    "envmgr_audit_duration_seconds": "How long the last audit took.",
    "envmgr_audit_nodes": "Nodes by how they were asked and whether they answered.",
    "envmgr_audit_findings": "Findings by check and severity; nodes with the same fault are one finding.",
    "envmgr_audit_affected_nodes": "Nodes that have findings of this check and severity.",
    "envmgr_audit_node_findings": "Findings by node, check and severity; no series for a node without, and at most "
    f"{MOST_NODES} nodes.",
    "envmgr_audit_node_findings_omitted_nodes": "Nodes with findings that have no envmgr_audit_node_findings.",
    "envmgr_published_generation": "Number of the published generation.",
    "envmgr_published_entries": "Entries of the published generation.",
    "envmgr_entry_unfit_nodes": "Nodes that answered and cannot run the entry.",
    "envmgr_entry_staged_nodes": "Nodes that answered and have the whole entry mounted from their own disk.",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """A gauge with all its series."""

    name: str
    samples: Samples


def metrics_of(result: AuditResult) -> list[Metric]:
    """Return the metrics of an audit that looked, also of one that could compare nothing."""
    could = result.exit_code != 3
    metrics = [
        Metric("envmgr_audit_timestamp_seconds", [({}, round(result.finished, 3))]),
        Metric("envmgr_audit_success", [({}, int(could))]),
        Metric("envmgr_audit_error_info", [] if could else [({"reference": _why_not(result)}, 1)]),
        Metric("envmgr_audit_duration_seconds", [({}, round(result.seconds, 3))]),
        Metric("envmgr_audit_nodes", _nodes(result)),
        *_findings(result),
    ]
    if result.generation is not None:
        metrics.append(Metric("envmgr_published_generation", [({}, result.generation)]))
        metrics.append(Metric("envmgr_published_entries", [({}, len(result.entries))]))
    if result.matrix:
        metrics.append(Metric("envmgr_entry_unfit_nodes", _unfit(result)))
    metrics.append(Metric("envmgr_entry_staged_nodes", [({"entry": e}, count) for e, count in result.staged.items()]))
    return metrics


def metrics_of_failure(error: EnvmgrError, now: float) -> list[Metric]:
    """Return the metrics of an audit that failed: `now`, epoch seconds, and that it failed.

    There are none for an interrupted audit: an alert would be a false one.
    """
    if isinstance(error, Interrupted):
        return []
    return [
        Metric("envmgr_audit_timestamp_seconds", [({}, round(now, 3))]),
        Metric("envmgr_audit_success", [({}, 0)]),
        Metric("envmgr_audit_error_info", [({"reference": error.reference}, 1)]),
    ]


def _why_not(result: AuditResult) -> str:
    if result.generation is None and not result.alone:
        return result.unread.reference if result.unread else "no-published-generation"
    return "no-node-answered"


def _nodes(result: AuditResult) -> Samples:
    for asked in result.asked:
        for status in ("answered", "silent", "unreachable"):
            yield {"way": asked.way, "status": status}, len(expand(getattr(asked, status)))


def _unfit(result: AuditResult) -> Samples:
    unfit: Counter[str] = Counter()
    for row in result.matrix:
        unfit[row.entry] += 0 if row.fit is not False or row.reasons == ("no answer",) else len(expand(row.nodes))
    for entry, count in unfit.items():
        yield {"entry": entry}, count


def _findings(result: AuditResult) -> Iterable[Metric]:
    severities: tuple[Severity, ...] = get_args(Severity)
    checks = dict.fromkeys([*result.checks, *(f.check for f in result.every)])
    count = Counter((f.check, f.severity) for f in result.every)
    affected: dict[tuple[str, str], set[str]] = defaultdict(set)
    by_node: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for finding in result.every:
        key = (finding.check, finding.severity)
        for node in expand(finding.nodes):
            affected[key].add(node)
            by_node[node][key] += 1
    keys = [(check, severity) for check in checks for severity in severities]
    yield Metric("envmgr_audit_findings", [(_of(*key), count[key]) for key in keys])
    yield Metric("envmgr_audit_affected_nodes", [(_of(*key), len(affected[key])) for key in keys])
    worst = _worst_first(result.every)[:MOST_NODES]
    yield Metric(
        "envmgr_audit_node_findings",
        [({"node": node, **_of(*key)}, by_node[node][key]) for node in worst for key in keys if by_node[node][key]],
    )
    yield Metric("envmgr_audit_node_findings_omitted_nodes", [({}, len(by_node) - len(worst))])


def _of(check: str, severity: str) -> Labels:
    return {"check": check, "severity": severity}


def _worst_first(findings: Iterable[Finding]) -> list[str]:
    """Return nodes by their worst finding, then in the findings' order, which is the same at every audit."""
    worst: dict[str, int] = {}
    for finding in findings:
        rank = get_args(Severity).index(finding.severity)
        for node in expand(finding.nodes):
            worst[node] = min(rank, worst.get(node, rank))
    return sorted(worst, key=worst.__getitem__)
