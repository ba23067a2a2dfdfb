"""Metrics of an audit, as command lines of Ganglia's gmetric for a shell. Pure.

Ganglia has no labels: their values are part of a metric's name. What each node has is left out: names would come and go.

Source: gmetric(1); gmond.conf(5), "Metric".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from envmgr.audit.metrics import HELP, Sample, metrics_of, metrics_of_failure
from envmgr.system.shelltext import words

if TYPE_CHECKING:
    from envmgr.audit.result import AuditResult
    from envmgr.errors import EnvmgrError

_EVERY, _FORGOTTEN = 3600, 6 * 3600  # seconds between two audits by the shipped timer; until gmond forgets a metric
_REASON = "envmgr_audit_error_info"  # a text


def result_text(result: AuditResult) -> str:
    samples = [*metrics_of(result)]
    if result.exit_code != 3:
        samples.append((_REASON, {"reference": "none"}, 1))  # one that is not sent again stays until it is forgotten
    return _script(samples)


def error_text(error: EnvmgrError, *, now: float) -> str | None:
    return _script(metrics_of_failure(error, now)) or None


def _script(samples: Iterable[Sample]) -> str:
    """Return the lines. `$GMETRIC` names another command than `gmetric`, or gives it options."""
    sent = (words(*_words(*sample)) for sample in samples if sample[0] != "envmgr_audit_node_findings")
    return "".join(f"${{GMETRIC:-gmetric}} {line}\n" for line in sent)


def _words(name: str, labels: Mapping[str, str], value: float) -> tuple[str, ...]:
    about = "-g", "envmgr", "-D", HELP[name], "-x", str(_EVERY), "-d", str(_FORGOTTEN)
    if name == _REASON:
        return "-n", name, "-v", _plain(labels["reference"]), "-t", "string", *about
    return "-n", _plain("_".join((name, *labels.values()))), "-v", str(value), "-t", "double", *about


def _plain(text: str) -> str:
    """Return a text that gmetric takes, and that can be the name of gmetad's file."""
    return re.sub(r"[^A-Za-z0-9.+-]", "_", text)
