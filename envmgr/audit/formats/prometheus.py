"""Metrics of an audit, for node_exporter's textfile collector. Pure.

Source: Prometheus, "Exposition formats" (text format 0.0.4); node_exporter, "Textfile Collector".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envmgr.audit.metrics import HELP, Sample, metrics_of, metrics_of_failure

if TYPE_CHECKING:
    from envmgr.audit.result import AuditResult
    from envmgr.errors import EnvmgrError


def result_text(result: AuditResult) -> str:
    return exposition(metrics_of(result))


def error_text(error: EnvmgrError, *, now: float) -> str | None:
    return exposition(metrics_of_failure(error, now)) or None


def exposition(samples: Iterable[Sample]) -> str:
    """Return the text of gauges; one without samples is left out."""
    lines: dict[str, list[str]] = {name: [] for name in HELP}
    for name, labels, value in samples:
        inside = ",".join(f'{label}="{escape(text)}"' for label, text in labels.items())
        lines[name] = lines[name] or [f"# HELP {name} {HELP[name]}\n# TYPE {name} gauge"]
        lines[name].append(f"{name}{f'{{{inside}}}' if inside else ''} {value}")
    return "".join(f"{line}\n" for of in lines.values() for line in of)


def escape(value: str) -> str:
    r"""Return a label's value between its quotes: `\`, `"` and newlines are escaped, and nothing else is."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
