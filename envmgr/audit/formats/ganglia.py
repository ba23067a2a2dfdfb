"""Metrics of an audit, as command lines of Ganglia's gmetric for a shell. Pure.

Ganglia has no labels: their values are part of a metric's name. What each node has is left out: names would come and go.

Source: gmetric(1); gmond.conf(5), "Metric".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from envmgr.audit.metrics import HELP, Metric, metrics_of, metrics_of_failure
from envmgr.system.shelltext import words

if TYPE_CHECKING:
    from envmgr.audit.result import AuditResult
    from envmgr.errors import EnvmgrError

_EVERY, _FORGOTTEN = 3600, 6 * 3600  # seconds between two audits by the shipped timer; until gmond forgets a metric


def result_text(result: AuditResult) -> str:
    return _script(metrics_of(result))


def error_text(error: EnvmgrError, *, now: float) -> str | None:
    return _script(metrics_of_failure(error, now)) or None


def _script(metrics: Iterable[Metric]) -> str:
    """Return the lines. `$GMETRIC` names another command than `gmetric`, or gives it options."""
    return "".join(f"${{GMETRIC:-gmetric}} {words(*line)}\n" for metric in metrics for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[tuple[str, ...]]:
    samples = [*metric.samples]
    about = "-g", "envmgr", "-D", HELP[metric.name], "-x", str(_EVERY), "-d", str(_FORGOTTEN)
    if metric.name == "envmgr_audit_error_info":  # a text; one that is not sent again stays until it is forgotten
        reference = samples[0][0]["reference"] if samples else "none"
        yield "-n", metric.name, "-v", _plain(reference), "-t", "string", *about
    elif metric.name != "envmgr_audit_node_findings":
        for labels, value in samples:
            yield "-n", _plain("_".join((metric.name, *labels.values()))), "-v", str(value), "-t", "double", *about


def _plain(text: str) -> str:
    """Return a text that gmetric takes, and that can be the name of gmetad's file."""
    return re.sub(r"[^A-Za-z0-9.+-]", "_", text)
