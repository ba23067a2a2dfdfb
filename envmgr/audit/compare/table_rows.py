"""The findings that follow from a check's table: facts that are findings, and facts that are compared between nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypedDict

from envmgr.audit.causes import Traced, set_on
from envmgr.audit.compare.between_nodes import Outlier, Values, as_on, compare, drift
from envmgr.audit.model import AskedShell, Evidence, Found, Row, worded
from envmgr.audit.table import Fact, Words, fill
from envmgr.audit.wording import fields_of
from envmgr.probe.model import Fleet
from envmgr.report import Severity


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
        if fact.found:
            yield from _findings(fact, f"{beginning}{name}", name, fleet, evidence, shell)
        else:
            values = fleet.by_value(f"{beginning}{name}", default="" if fact.empty else None)
            words = drift_words(fact, values, evidence, shell, {"name": name})
            yield from drift(values=values, evidence=evidence, **words)


def _findings(
    fact: Fact, key: str, name: str, fleet: Fleet, evidence: Evidence, shell: AskedShell | None
) -> Iterator[Found]:
    values: Values = fleet.by_line(key) if fact.lines else fleet.by_value(key)
    others: dict[str, Outlier] = {}
    if fact.outlier:
        others = {each.value: each for each in compare(values, evidence).outliers}
        values = {value: each.nodes for value, each in others.items()}
    for said, nodes in values.items():
        if said in fact.unless or (fact.only and said not in fact.only):
            continue
        given = {"value": said if said.strip() else fact.empty or said, "name": name}
        if fact.fields:
            given |= dict(zip(fact.fields, fields_of(said, len(fact.fields)), strict=True))
        if fact.outlier:
            right = as_on(others[said].others)
            given |= {"right": others[said].right, "as_on": right, "on_others": right.removeprefix("as ")}
        yield worded(fact, evidence, nodes, shell, given)


def compared(
    row: str,
    values: Values,
    evidence: Evidence,
    shell: AskedShell | None = None,
    *,
    kept: bool = True,
    severity: Severity | None = None,
    hint: str | Traced = "",
    say: Callable[[str], str] | None = None,
    told: Callable[[Outlier], str] | None = None,
    expect: Callable[[str, str], str] | None = None,
    **given: object,
) -> Iterator[Row]:
    """Yield what differs between nodes, in the words of a row of the check's table that has `drift`; `given` fills it in.

    `kept` and `told` are those of `drift`; the others are, too, and replace the row's own.
    """
    words = drift_words(evidence.table.rows[row], values, evidence, shell, given)
    words |= {"severity": severity or words["severity"], "hint": hint or words["hint"]}
    words |= {"say": say or words["say"], "expect": expect or words["expect"]}
    return drift(values=values, evidence=evidence, kept=kept, told=told, **words)


class _DriftWords(TypedDict):
    where: str
    what: str
    severity: Severity
    hint: str | Traced
    say: Callable[[str], str]
    expect: Callable[[str, str], str] | None


def drift_words(
    row: Words, values: Values, evidence: Evidence, shell: AskedShell | None, given: Mapping[str, object]
) -> _DriftWords:
    """Return the arguments of `drift` that a row has."""
    given = {"prefix": evidence.site.prefix, "user": shell.user if shell else evidence.plan.user, **given}
    hint: str | Traced = fill(row.hint, given)
    if row.cause:
        before, unplaced = fill(row.hint, given), fill(row.unplaced, given)
        hint = f"{before}{unplaced}"
        if shell is not None:
            hint = set_on(values, shell.context, shell.account, fill(row.cause, given), unplaced, before)
    return {
        "where": fill(row.where, given) or (shell.where if shell is not None else ""),
        "what": fill(row.what, given),
        "severity": row.drift or "warning",
        "hint": hint,
        "say": partial(_in_words, row, given),
        "expect": (lambda _right, _value: fill(row.expected, given)) if row.expected else None,
    }


def _in_words(row: Words, given: Mapping[str, object], value: str) -> str:
    return fill(row.say if value or not row.empty else row.empty, {**given, "value": value})
