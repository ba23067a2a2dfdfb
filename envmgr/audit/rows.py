"""The findings that follow from a check's table: facts that are findings wherever a node reports them."""

from __future__ import annotations

from envmgr.audit.model import AskedShell, Evidence, Rows, worded
from envmgr.audit.table import Fact, fields_of
from envmgr.probe.model import Fleet


def rows_of_table(evidence: Evidence) -> Rows:
    """Yield the findings of the facts of every stage, in the table's order; shell by shell for contexts."""
    table = evidence.table
    stages = ((table.node, evidence.fleet), (table.prefix, evidence.fleet.sound), (table.login, evidence.shells))
    for facts, fleet in stages:
        for key, fact in facts.items():
            yield from _rows(key, fact, fleet, evidence, None)
    if any(fact.found for fact in table.context.values()):
        for shell in evidence.each_shell():
            for key, fact in table.context.items():
                yield from _rows(f"{shell.key}{key}", fact, shell.fleet, evidence, shell)


def _rows(key: str, fact: Fact, fleet: Fleet, evidence: Evidence, shell: AskedShell | None) -> Rows:
    beginning, star, _ = key.partition("*")
    for name in (fleet.names(beginning) if star else [""]) if fact.found else ():
        by = fleet.by_line if fact.lines else fleet.by_value
        for said, nodes in by(f"{beginning}{name}").items():
            given = {"value": said, "name": name}
            if fact.fields:
                given |= dict(zip(fact.fields, fields_of(said, len(fact.fields)), strict=True))
            yield worded(evidence.check, fact, evidence, nodes, shell, given)
