"""What is known to harm users, or to change what programs do, also where all nodes have it alike: `alike.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envmgr.audit.findings import AuditFinding, Loose
from envmgr.audit.hints import hint_of
from envmgr.audit.inventory.alike_rows import ROWS, AlikeRow
from envmgr.audit.inventory.differences import Difference
from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.inventory.places import Place
from envmgr.audit.model import AskedShell, Evidence
from envmgr.audit.table import fill
from envmgr.nodes.sets import fold


def alike(places: Iterable[Place], evidence: Evidence, known: Iterable[Difference]) -> Iterator[Loose]:
    """Yield a finding for each fact that a row fits, and that is not `known` to differ; its `names` are what sets it."""
    told = {(of.where, of.kind, of.key) for of in known}
    shells = {shell.key: shell for shell in evidence.each_shell()}
    for place in places:
        shell = shells.get(place.where)
        found: dict[tuple[AlikeRow, str, str], list[str]] = {}
        for inventory, nodes in place.told:
            values = inventory.values
            modules = bool(values.get(("env", "LOADEDMODULES"))) or (shell is not None and shell.context.way != "ssh")
            for (kind, key), value in values.items():
                row = next((row for row in ROWS.get(kind, ()) if row.fits(key, value)), None)
                if row and (place.where, kind, key) not in told and not (row.from_modules and modules):
                    found.setdefault((row, key, value), []).extend(nodes)
        for (row, key, value), having in found.items():
            yield _said(row, key, value, having, shell, evidence)


def _said(row: AlikeRow, key: str, value: str, nodes: list[str], shell: AskedShell | None, evidence: Evidence) -> Loose:
    user = shell.user if shell else evidence.plan.user
    value = "not said: it is a secret" if re.fullmatch("~[0-9a-f]{12}", value) else value
    first, _, last = value.rpartition(" ")
    given = {"key": key, "value": value, "user": user, "first": first, "last": last}
    given |= {"first_key": key.partition(" ")[0], "last_key": key.partition(" ")[2]}
    hint = hint_of(row.hint.filled(given), nodes)
    place = shell.where if shell else key
    says = fill(row.says, given)
    finding = AuditFinding(
        "inventory", row.severity, place, says, hint=hint.text, nodes=fold(nodes), actions=hint.actions
    )
    names = tuple((row.trace or KINDS[row.kind].set_by or key).split())
    return Loose(finding, shell.context.name, shell.account, names) if shell else Loose(finding, names=names)
