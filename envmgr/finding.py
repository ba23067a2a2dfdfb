"""A finding: one thing that a check, an audit or a verification found wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `where` is a file, an entry or a field; `nodes` is a folded node set, empty for this
    machine.

    `between` are nodes that differ from each other where nobody can tell which one is right: none of them is accused,
    and `nodes` is empty.
    """

    check: str
    severity: Severity
    where: str
    found: str
    expected: str = ""
    hint: str = ""
    nodes: str = ""
    between: str = ""
