"""The findings that a check's table says by itself: a fact that is one, and a fact that is compared between nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from envmgr.audit.comparing import Values, drift
from envmgr.audit.model import AskedShell, Evidence, Found, Row, worded
from envmgr.audit.table import Fact, fill
from envmgr.audit.trace import Traced, set_on
from envmgr.probe.model import Fleet


def rows_of_table(evidence: Evidence) -> Iterator[Row]:
    """Yield the findings of the facts of every stage, in the table's order; shell by shell for contexts."""
    table = evidence.table
    for facts, fleet in (
        (table.node, evidence.fleet),
        (table.prefix, evidence.fleet.sound),
        (table.login, evidence.shells),
    ):
        for key, fact in facts.items():
            yield from _rows(key, fact, fleet, evidence, None)
    if any(fact.found or fact.drift for fact in table.context.values()):
        for shell in evidence.each_shell():
            for key, fact in table.context.items():
                if not fact.shells or shell.context.shell in fact.shells:
                    yield from _rows(f"{shell.key}{key}", fact, shell.fleet, evidence, shell)


def _rows(key: str, fact: Fact, fleet: Fleet, evidence: Evidence, shell: AskedShell | None) -> Iterator[Row]:
    if not fact.found and fact.drift is None:
        return
    beginning, star, _ = key.partition("*")
    for name in fleet.names(beginning) if star else [""]:
        values = fleet.by_value(f"{beginning}{name}", default="" if fact.drift and fact.empty else None)
        if fact.found:
            yield from _findings(fact, name, values, evidence, shell)
        if fact.drift:
            yield from _compared(fact, name, values, evidence, shell)


def _findings(fact: Fact, name: str, values: Values, evidence: Evidence, shell: AskedShell | None) -> Iterator[Found]:
    told: dict[str, list[str]] = {}
    for value, nodes in values.items():
        for said in value.splitlines() if fact.lines else [value]:
            told.setdefault(said, []).extend(nodes)
    for said, having in told.items():
        if said not in fact.unless and (not fact.only or said in fact.only):
            words = dict(zip(fact.fields, said.split(" ", len(fact.fields) - 1), strict=False)) if fact.fields else {}
            shown = said if said.strip() else fact.empty or said
            yield worded(fact, evidence, having, shell, {"value": shown, "name": name, **words})


def _compared(fact: Fact, name: str, values: Values, evidence: Evidence, shell: AskedShell | None) -> Iterator[Row]:
    given: Mapping[str, object] = {"name": name, "prefix": evidence.site.prefix, "user": evidence.plan.user}
    hint: str | Traced = fill(fact.hint, given)
    if fact.cause and shell is not None:
        hint = set_on(values, shell.context, shell.account, fill(fact.cause, given), fill(fact.unplaced, given))
    yield from drift(
        shell.where if shell is not None and not fact.where else fill(fact.where, given),
        values,
        evidence,
        what=fill(fact.what, given),
        severity=fact.drift or "warning",
        hint=hint,
        say=partial(_in_words, fact, given),
    )


def _in_words(fact: Fact, given: Mapping[str, object], value: str) -> str:
    return fill(fact.say, {**given, "value": value}) if value or not fact.empty else fact.empty
