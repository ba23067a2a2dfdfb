"""Known harms: what changes shells or programs, also where all nodes have it alike. `alike.yaml` is their table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from envmgr.audit.findings import AuditFinding, Loose
from envmgr.audit.hints import actions_of
from envmgr.audit.inventory.alike_rows import ROWS, AlikeRow
from envmgr.audit.inventory.facts import Place
from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.model import AskedShell, Evidence
from envmgr.audit.table import fill
from envmgr.nodes.sets import fold

if TYPE_CHECKING:
    from envmgr.audit.inventory.differences import Difference


def alike(places: Iterable[Place], evidence: Evidence, known: Iterable[Difference]) -> Iterator[Loose]:
    """Yield a finding for each fact that a row fits, on the nodes of which no `known` difference from like nodes tells it; its `names` are what sets it."""
    told: dict[tuple[str, str, str], set[str]] = {}
    for of in (each for each in known if not each.apart):
        told.setdefault((of.where, of.kind, of.key), set()).update(of.nodes if of.known else (*of.nodes, *of.others))
    shells = {shell.key: shell for shell in evidence.each_shell()}
    for place in places:
        shell = shells.get(place.where)
        found: dict[tuple[AlikeRow, str, str], list[str]] = {}
        for inventory, nodes in place.told:
            values = inventory.values
            modules = bool(values.get(("env", "LOADEDMODULES"))) or (shell is not None and shell.context.way != "ssh")
            for (kind, key), value in values.items():
                row = next((row for row in ROWS.get(kind, ()) if row.fits(key, value)), None)
                having = [node for node in nodes if node not in told.get((place.where, kind, key), ())] if row else []
                if row and having and not (row.from_modules and modules):
                    found.setdefault((row, key, value), []).extend(having)
        for (row, key, value), having in found.items():
            yield _said(row, key, value, having, shell, evidence)


def _said(row: AlikeRow, key: str, value: str, nodes: list[str], shell: AskedShell | None, evidence: Evidence) -> Loose:
    user = shell.user if shell else evidence.plan.user
    value = "a secret that is not said" if re.fullmatch("~[0-9a-f]{12}", value) else value
    first = re.sub(r" (not writable|a file|\S+)$", "", value)
    given = {"key": key.rstrip("/") or key, "value": value, "user": user, "first": first}
    given |= {"first_key": key.partition(" ")[0], "last_key": key.partition(" ")[2]}
    hint = row.hint.filled(given)
    at, on = shell.where if shell else key, fold(nodes)
    finding = AuditFinding(
        "inventory", row.severity, at, fill(row.says, given), hint=hint.text, nodes=on, actions=actions_of(hint, on)
    )
    names = tuple((row.trace or KINDS[row.kind].sets(key)).split())
    return Loose(finding, shell.context.name, shell.account, names) if shell else Loose(finding, names=names)
