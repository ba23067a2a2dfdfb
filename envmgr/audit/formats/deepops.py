"""The form of DeepOps's validators: one JSON object with `ok` and the list `failures`, whose texts say what to do.
Pure.

`ok` is true just where there are no failures, which is where the audit exits with 0. Names that their validator of
Slurm has too (`nodes_total`, `nodes_available`, `nodes_unavailable`, `nodes`) mean here what they mean there; every
field is always there.

Source: DeepOps, docs/deepops/validation.md and scripts/validation/validate_slurm.py.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from envmgr.audit.text import place
from envmgr.nodes.sets import expand
from envmgr.wording import escaped

if TYPE_CHECKING:
    from envmgr.audit.result import AuditResult
    from envmgr.errors import EnvmgrError
    from envmgr.report import Finding

_STATES = ("unreachable", "silent", "answered")  # the worst first: a node that was asked in two ways has one


def result_text(result: AuditResult) -> str:
    bad = [finding for finding in result.every if finding.severity != "note"]
    failures = ["; ".join(_parts(finding)) for finding in bad]
    if result.exit_code == 3:
        failures.insert(0, result.lacked)
    states = _states(result)
    count = Counter(node for finding in bad for node in expand(finding.nodes))
    return _document(
        failures,
        nodes_total=len(states),
        nodes_available=sum(state == "answered" for state in states.values()),
        nodes_unavailable=sum(state != "answered" for state in states.values()),
        nodes=[{"name": n, "state": state, "failures": count[n]} for n, state in sorted(states.items())],
        checks=list(result.checks),
        notes=len(result.every) - len(bad),
        published_generation=result.generation,
        published_entries=len(result.entries),
    )


def error_text(error: EnvmgrError, *, now: float) -> str:  # noqa: ARG001 - the file's own time says it
    """Return the text for an audit that could not run, with its error as the only failure."""
    hint = f"; hint: {error.hint}" if error.hint else ""
    return _document([f"{error.head}{''.join(f'; {line}' for line in error.context)}{hint}"])


def _document(failures: list[str], **fields: Any) -> str:
    """Return the document in the order of its names, as theirs is. ASCII is right in every encoding that stdout may
    have.
    """
    nothing = {
        "nodes_total": 0,
        "nodes_available": 0,
        "nodes_unavailable": 0,
        "nodes": [],
        "checks": [],
        "notes": 0,
        "published_generation": None,
        "published_entries": 0,
    }
    lines = [escaped(" ".join(failure.split())) for failure in failures]  # one line each: they are printed verbatim
    found = {**nothing, **fields, "ok": not lines, "failures": lines}
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def _states(result: AuditResult) -> dict[str, str]:
    """Return node -> how it answered; nodes that Slurm was not asked for (busy, asleep) count by the ways in which they
    were asked.
    """
    found = dict.fromkeys(expand(result.nodes), "silent")
    for state in reversed(_STATES):
        for asked in result.asked:
            found |= dict.fromkeys(expand(getattr(asked, state)), state)
    return found


def _parts(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity}[{finding.check}] {place(finding)}: {finding.where}: {finding.found}"
    if finding.expected:
        yield f"expected: {finding.expected}"
    if finding.hint:
        yield f"hint: {finding.hint}"
