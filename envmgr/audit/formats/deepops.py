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
from typing import TYPE_CHECKING

from envmgr.audit.text import head, rows
from envmgr.nodes.sets import expand
from envmgr.wording import escaped

if TYPE_CHECKING:
    from envmgr.audit.result import AuditResult
    from envmgr.errors import EnvmgrError
    from envmgr.report import Finding

_STATES = ("unreachable", "silent", "answered")  # the worst first: a node that was asked in two ways has one


def result_text(result: AuditResult) -> str:
    failures = ["; ".join(_parts(finding)) for finding in result.every if finding.severity != "note"]
    return _document([result.lacked.text, *failures] if result.exit_code == 3 else failures, result)


def error_text(error: EnvmgrError, *, now: float) -> str:  # noqa: ARG001 - the file's own time says it
    """Return the text for an audit that could not run, with its error as the only failure."""
    hint = f"; hint: {error.hint}" if error.hint else ""
    return _document([f"{error.head}{''.join(f'; {line}' for line in error.context)}{hint}"], None)


def _document(failures: list[str], result: AuditResult | None) -> str:
    """Return the document in the order of its names, as theirs is. ASCII is right in every encoding that stdout may
    have.
    """
    lines = [escaped(" ".join(failure.split())) for failure in failures]  # one line each: they are printed verbatim
    states, every = (_states(result), result.every) if result else ({}, ())
    count = Counter(node for finding in every if finding.severity != "note" for node in expand(finding.nodes))
    available = sum(state == "answered" for state in states.values())
    found = {
        "ok": not lines,
        "failures": lines,
        "nodes_total": len(states),
        "nodes_available": available,
        "nodes_unavailable": len(states) - available,
        "nodes": [{"name": n, "state": state, "failures": count[n]} for n, state in sorted(states.items())],
        "checks": list(result.checks) if result else [],
        "notes": sum(finding.severity == "note" for finding in every),
        "published_generation": result.generation if result else None,
        "published_entries": len(result.entries) if result else 0,
    }
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
    yield f"{head(finding)}: {finding.found}"
    yield from (f"{name}: {text}" for name, text in rows(finding) if name != "found")
