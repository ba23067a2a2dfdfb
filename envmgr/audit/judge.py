"""The judgement of all checks on the evidence: findings, each once, with all nodes to which it applies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from envmgr.audit.findings import AuditFinding, Caused, Loose, joined, same_on_nodes
from envmgr.audit.inventory.facts import Place
from envmgr.audit.inventory.places import places_of
from envmgr.audit.join.stage import by_what_differs
from envmgr.audit.model import AskedShell, Check, Evidence, Rows
from envmgr.audit.plan import Unread
from envmgr.audit.second_look import LookAgain, Seen
from envmgr.audit.table import ENGINE, Fact, fields_of
from envmgr.nodes.sets import fold
from envmgr.probe.model import Fleet, ProbeStage
from envmgr.probe.shell import looked_key


@dataclass(frozen=True, slots=True)
class AuditJudged:
    """The result of judging. `places` have everything that was compared, for a baseline; `of_checks` are findings that are
    not joined yet.
    """

    findings: tuple[Caused, ...]
    places: tuple[Place, ...]
    of_checks: tuple[Loose, ...]


def judge(
    evidence: Evidence,
    checks: Mapping[str, Check],
    look_again: LookAgain = lambda _: Seen(),
    kinds: Collection[str] = (),
) -> AuditJudged:
    """Judge, look again at nodes that differ, and return all findings by what they come from, the worst first.

    Only these kinds of the inventory are compared, or all for none.
    """
    loose = [one for check in checks.values() for one in rows_of(check, evidence)]
    loose += [Loose(finding) for finding in (*_not_here(evidence), *joined(_not_looked_at(evidence, checks)))]
    left = [*same_on_nodes(loose)]
    places = tuple(place.only(kinds) for place in places_of(evidence)) if "inventory" in checks else ()
    return AuditJudged(by_what_differs(left, places, evidence, look_again), places, tuple(loose))


def rows_of(check: Check, evidence: Evidence) -> list[Loose]:
    """Return the findings of one check, in its order."""
    given = replace(evidence, table=check.table)
    return [*_rows_of_table(given), *check.judge(given)]


def _rows_of_table(evidence: Evidence) -> Rows:
    """Yield the facts that are findings wherever a node reports them, in the table's order; shell by shell for contexts."""
    table = evidence.table
    stages = ((table.node, evidence.fleet), (table.prefix, evidence.fleet.sound), (table.login, evidence.shells))
    for facts, fleet in stages:
        for key, fact in facts.items():
            yield from _of_fact(key, fact, fleet, evidence, None)
    if any(fact.found for fact in table.context.values()):
        for shell in evidence.each_shell():
            for key, fact in table.context.items():
                yield from _of_fact(f"{shell.key}{key}", fact, shell.fleet, evidence, shell)


def _of_fact(key: str, fact: Fact, fleet: Fleet, evidence: Evidence, shell: AskedShell | None) -> Rows:
    beginning, star, _ = key.partition("*")
    for name in (fleet.names(beginning) if star else [""]) if fact.found else ():
        by = fleet.by_line if fact.lines else fleet.by_value
        for said, nodes in by(f"{beginning}{name}").items():
            given: dict[str, Any] = dict(zip(fact.fields, fields_of(said, len(fact.fields)), strict=False))
            yield evidence.say(fact, nodes, shell, **{"value": said, "name": name, **given})


def _not_here(evidence: Evidence) -> Iterable[AuditFinding]:
    """Yield why nothing can be compared with a published generation."""
    if evidence.alone and evidence.published is None:
        if evidence.site.source is not None:  # else it names no prefix
            yield _of_engine("nothing_yet", "generation", evidence)
    elif (unread := why_unread(evidence)) is not None:
        row = "unread" if unread.reference == "prefix-away" else "no_link"
        yield _of_engine(row, "generation", evidence, why=unread.text)


def why_unread(evidence: Evidence) -> Unread | None:
    """Return why this host has no published generation to compare with; None if it has one, or nothing is published."""
    if evidence.published is not None or evidence.alone:
        return None
    gate = evidence.controller.get("probe") or evidence.controller.get("gate", "hung")
    named = evidence.mounts.sound.by_value("current").items()
    seen = "; ".join(f"{fold(nodes)} {'sees' if len(nodes) == 1 else 'see'} {target}" for target, nodes in named)
    if gate in ("hung", "ok"):
        why = "does not answer on this host"
    elif not gate.startswith("no link"):
        why = f"cannot be used on this host: {gate}"
    elif "empty" in evidence.controller:
        why = "is empty on this host: it is not mounted here, or nothing was published"
    elif seen:
        why = "is another folder on this host: it is not mounted here"
    else:
        text = f"there is no {evidence.site.prefix}/current, as this host sees it: nothing is published, or it is lost"
        return Unread("no-published-generation", text)
    return Unread("prefix-away", "; ".join(filter(None, (f"{evidence.site.prefix} {why}", seen))))


def _of_engine(row: str, check: str, evidence: Evidence, nodes: Iterable[str] = (), **values: Any) -> AuditFinding:
    """Return a row of the engine's own table as a finding of a check."""
    of_check = replace(evidence, table=ENGINE.model_copy(update={"part": check}))
    return of_check.say(row, nodes, check=check, **values).finding


def _not_looked_at(evidence: Evidence, checks: Mapping[str, Check]) -> Iterable[AuditFinding]:
    """Yield a warning for each question of a check that a node's answer lacks: silence does not mean agreement.

    A stage that did not end is reported once.
    """
    places: list[tuple[ProbeStage, str, str, Fleet]] = [("node", "", "node", evidence.fleet)]
    places += [("prefix", "", "prefix", evidence.fleet.sound), ("login", "", "login", evidence.shells)]
    places += [("context", shell.key, shell.where, shell.fleet) for shell in evidence.each_shell()]
    for name, check in checks.items():
        asked = check.probe(evidence.plan)
        for stage, key, where, fleet in places:
            told = {f"{key or f'{stage}.'}end", f"{key}{looked_key(check.table.part, stage)}", "probe"}
            silent = [node for group in fleet.groups if told.isdisjoint(group.facts) for node in group.nodes]
            if stage in asked and silent:
                yield _of_engine("not_looked_at", name, evidence, silent, where=where)
