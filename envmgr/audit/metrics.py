"""The numbers of an audit, for the formats of programs that keep numbers over time. Pure.

Source of the names: Prometheus, "Metric and label naming".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from envmgr.audit.table import read_yaml
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.nodes.sets import expand
from envmgr.report import Severity

if TYPE_CHECKING:
    from envmgr.audit.result import AuditResult

MOST_NODES = 500  # nodes with series of their own: a broken cluster must not flood the server that watches it

Sample = tuple[str, Mapping[str, str], float]
"""The name of a metric, its labels, and a value."""

HELP: Mapping[str, str] = read_yaml(Path(__file__).with_suffix(".yaml"))


def metrics_of(result: AuditResult) -> Iterator[Sample]:
    """Yield the metrics of an audit that looked, also of one that could compare nothing."""
    could = result.exit_code != 3
    yield "envmgr_audit_timestamp_seconds", {}, round(result.finished, 3)
    yield "envmgr_audit_success", {}, int(could)
    if not could:
        yield "envmgr_audit_error_info", {"reference": result.lacked.reference}, 1
    yield "envmgr_audit_duration_seconds", {}, round(result.seconds, 3)
    for asked in result.asked:
        for status in ("answered", "silent", "unreachable"):
            yield "envmgr_audit_nodes", {"way": asked.way, "status": status}, len(expand(getattr(asked, status)))
    yield from _findings(result)
    if result.generation is not None:
        yield "envmgr_published_generation", {}, result.generation
        yield "envmgr_published_entries", {}, len(result.entries)
    unfit: Counter[str] = Counter()
    for row in result.matrix:
        unfit[row.entry] += len(expand(row.nodes)) if row.fit is False and row.reasons != ("no answer",) else 0
    for name, counts in (("envmgr_entry_unfit_nodes", unfit), ("envmgr_entry_staged_nodes", result.staged)):
        for entry, count in counts.items():
            yield name, {"entry": entry}, count


def metrics_of_failure(error: EnvmgrError, now: float) -> Iterator[Sample]:
    """Yield the metrics of an audit that failed: `now`, epoch seconds, and that it failed.

    There are none for an interrupted audit: an alert would be a false one.
    """
    if not isinstance(error, Interrupted):
        yield "envmgr_audit_timestamp_seconds", {}, round(now, 3)
        yield "envmgr_audit_success", {}, 0
        yield "envmgr_audit_error_info", {"reference": error.reference}, 1


def _findings(result: AuditResult) -> Iterator[Sample]:
    severities: tuple[Severity, ...] = get_args(Severity)
    by_node: dict[str, Counter[tuple[str, Severity]]] = {}
    for finding in result.every:
        for node in expand(finding.nodes):
            by_node.setdefault(node, Counter())[finding.check, finding.severity] += 1
    checks = dict.fromkeys([*result.checks, *(finding.check for finding in result.every)])
    keys = {(c, s): {"check": c, "severity": s} for c in checks for s in severities}
    count = Counter((finding.check, finding.severity) for finding in result.every)
    affected = Counter(key for of_node in by_node.values() for key in of_node)
    for name, counts in (("envmgr_audit_findings", count), ("envmgr_audit_affected_nodes", affected)):
        for key, labels in keys.items():
            yield name, labels, counts[key]
    worst = sorted(by_node, key=lambda node: min(severities.index(severity) for _, severity in by_node[node]))
    for node in worst[:MOST_NODES]:
        for key, labels in keys.items():
            if key in by_node[node]:
                yield "envmgr_audit_node_findings", {"node": node, **labels}, by_node[node][key]
    yield "envmgr_audit_node_findings_omitted_nodes", {}, len(worst[MOST_NODES:])
