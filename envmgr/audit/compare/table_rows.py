"""The findings that follow from a check's table: facts that are findings, and facts that are compared between nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from envmgr.audit.baseline import Compared
from envmgr.audit.causes import Traced, set_on
from envmgr.audit.compare.between_nodes import alike, as_on, chosen, compare
from envmgr.audit.hints import Hint, hint_of, look
from envmgr.audit.model import AskedShell, Drift, Evidence, Found, Noted, Outlier, Row, Values, hint_in_words, worded
from envmgr.audit.table import Fact, Steps, Words, fields_of, fill
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
        found = worded(fact, evidence, nodes, shell, given)
        yield replace(found, against=others[said].others) if fact.outlier else found


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
    about, account = fill(row.about, given), of.shell.user if of.shell is not None else ""
    for outlier in compared.outliers:
        expected = fill(row.expected, given) or say(outlier.right)
        right = of.expect(outlier.right, outlier.value) if of.expect else expected
        found = of.told(outlier) if of.told else say(outlier.value)
        hint = _hint(of, (outlier.nodes, outlier.others))
        expected = f"{right}, {as_on(outlier.others)}"
        one = Found(severity, where, found, expected, hint, outlier.nodes, about=about, account=account)
        yield replace(one, against=outlier.others)
    if compared.differ:
        words = "; ".join(f"{say(value)} on {fold(nodes)}" for value, nodes in [*compared.differ.items()][:_SHOWN])
        if (more := len(compared.differ) - _SHOWN) > 0:
            words += f"; and {more} other values"
        if compared.by_kind:
            severity = "warning" if severity == "error" else "note"
        hint = _hint(of, [*compared.differ.values()][:_SHOWN], known=False)
        between = compared.between
        yield Found(severity, where, words, alike(compared), hint, between=between, about=about, account=account)


def _given(of: Drift) -> Mapping[str, object]:
    user = of.shell.user if of.shell else of.evidence.plan.user
    return {"prefix": of.evidence.site.prefix, "user": user, **of.given}


def _hint(of: Drift, values: Sequence[Sequence[str]], *, known: bool = True) -> Hint | Traced:
    """Return the hint of a row for the first of these groups of nodes, which differs from the second: with the lines that
    set its cause, if it has one.

    If it is not `known` which of them are right, the hint names the lines of all groups, and nothing is to be done.
    """
    odd = values[0]
    row, shell, given = of.row, of.shell, {**_given(of), "nodes": fold(odd)}
    if isinstance(of.hint, (str, Steps)):
        if of.hint:
            own = hint_of(of.hint, odd)
            return own if known else look(own.text)
    else:
        return of.hint(values, known) if known or not row.hint else look(row.hint.filled(given).text)
    if row.cause and shell is not None:
        return set_on(values, shell.context, shell.account, row, given, known=known)
    hint = hint_in_words(row, given, odd)
    return hint if known else look(hint.text)


def _in_words(row: Words, given: Mapping[str, object], value: str) -> str:
    return fill(row.say if value or not row.empty else row.empty, {**given, "value": value})
