"""Metrics of an audit, for node_exporter's textfile collector. Pure.

Source: Prometheus, "Exposition formats" (text format 0.0.4); node_exporter, "Textfile Collector".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envmgr.audit.metrics import HELP, Metric, metrics_of, metrics_of_failure

if TYPE_CHECKING:
    from envmgr.audit.result import AuditResult
    from envmgr.errors import EnvmgrError


def result_text(result: AuditResult) -> str:
    return exposition(metrics_of(result))


def error_text(error: EnvmgrError, *, now: float) -> str | None:
    return exposition(metrics_of_failure(error, now)) or None


def exposition(metrics: Iterable[Metric]) -> str:
    """Return the text of gauges; one without series is left out."""
    lines = []
    for metric in metrics:
        samples = list(metric.samples)
        if samples:
            lines.append(f"# HELP {metric.name} {HELP[metric.name]}")
            lines.append(f"# TYPE {metric.name} gauge")
        for labels, value in samples:
            inside = ",".join(f'{name}="{escape(text)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{f'{{{inside}}}' if inside else ''} {value}")
    return "".join(f"{line}\n" for line in lines)


def escape(value: str) -> str:
    r"""Return a label's value between its quotes: `\`, `"` and newlines are escaped, and nothing else is."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
