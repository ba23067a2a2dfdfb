"""The findings that follow from a check's table: facts that are findings, and facts that are compared between nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from envmgr.audit.baseline import Compared
from envmgr.audit.compare.between_nodes import alike, as_on, chosen, compare
from envmgr.audit.hints import Hint, hint_of, look
from envmgr.audit.model import AskedShell, Drift, Evidence, Found, Noted, Outlier, Row, Values, worded
from envmgr.audit.table import Fact, Words, fields_of, fill
from envmgr.nodes.sets import fold
from envmgr.probe.model import Fleet

_SHOWN = 4  # values of nodes that differ


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
            yield Drift(evidence, fact, values, shell, {"name": name})


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


def judged(rows: Iterable[Row]) -> Iterator[Found | Noted]:
    """Yield the rows, with the findings of values that are compared between nodes.

    Values are compared before `rows` goes on, so that functions of a row may use variables of its loop.
    """
    for row in rows:
        if isinstance(row, Drift):
            yield from _drift(row)
        else:
            yield row


def _drift(of: Drift) -> Iterator[Found | Noted]:
    """Yield a finding for every value that is not right, and one for those of which none can be chosen."""
    evidence, row, given = of.evidence, of.row, _given(of)
    where = fill(row.where, given) or (of.shell.where if of.shell is not None else "")
    key = Compared(evidence.check, where, fill(row.what, given))
    if of.kept:
        yield Noted(key, of.values)
    compared = chosen(key, of.values, evidence) if of.kept else compare(of.values, evidence)
    severity = of.severity or row.drift or "warning"
    say = of.say or partial(_in_words, row, given)
    made = worded(row, evidence, (), of.shell, given)
    for outlier in compared.outliers:
        expected = fill(row.expected, given) or say(outlier.right)
        right = of.expect(outlier.right, outlier.value) if of.expect else expected
        found = of.told(outlier) if of.told else say(outlier.value)
        hint = _hint(of, outlier.nodes)
        expected = f"{right}, {as_on(outlier.others)}"
        nodes = outlier.nodes
        yield replace(made, severity=severity, found=found, expected=expected, hint=hint, nodes=nodes)
    if compared.differ:
        words = "; ".join(f"{say(value)} on {fold(nodes)}" for value, nodes in [*compared.differ.items()][:_SHOWN])
        if (more := len(compared.differ) - _SHOWN) > 0:
            words += f"; and {more} other values"
        if compared.by_kind:
            severity = "warning" if severity == "error" else "note"
        hint = look(_hint(of, next(iter(compared.differ.values()))).text)
        made = replace(made, severity=severity, found=words, expected=alike(compared), hint=hint)
        yield replace(made, between=compared.between)


def _given(of: Drift) -> Mapping[str, object]:
    user = of.shell.user if of.shell else of.evidence.plan.user
    return {"prefix": of.evidence.site.prefix, "user": user, **of.given}


def _hint(of: Drift, nodes: tuple[str, ...]) -> Hint:
    """Return the hint for nodes that differ from others."""
    return hint_of(of.hint or of.row.hint.filled({**_given(of), "nodes": fold(nodes)}), nodes)


def _in_words(row: Words, given: Mapping[str, object], value: str) -> str:
    return fill(row.say if value or not row.empty else row.empty, {**given, "value": value})
