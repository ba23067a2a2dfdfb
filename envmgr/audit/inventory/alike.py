"""Known harms: what changes shells or programs, also where all nodes have it alike. `alike.yaml` is their table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from envmgr.audit.findings import AuditFinding, Loose
from envmgr.audit.hints import actions_of
from envmgr.audit.inventory.facts import Place
from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.model import AskedShell, Evidence
from envmgr.audit.table import Steps, fill, read_yaml
from envmgr.nodes.sets import fold
from envmgr.report import Severity
from envmgr.system.models import FrozenModel

if TYPE_CHECKING:
    from envmgr.audit.inventory.differences import Difference


class AlikeRow(FrozenModel):
    """Words for facts of a `kind` whose whole key the regex `key` fits, and whose value has `value`, by default anything, and `unless` not.

    Of what is `from_modules` nothing is said where modules are loaded, and in jobs. `trace` names what sets it, if that is not the key.
    """

    kind: str
    key: str
    value: str = "."
    unless: str = Field("", alias="not")
    from_modules: bool = False
    severity: Severity
    says: str
    hint: Steps = Steps()
    trace: str = ""

    def fits(self, key: str, value: str) -> bool:
        spared = self.unless and re.search(self.unless, value)
        return not spared and bool(re.fullmatch(self.key, key) and re.search(self.value, value))


def _read(path: Path) -> dict[str, list[AlikeRow]]:
    rows = [AlikeRow.model_validate(row) for row in read_yaml(path)["rows"]]
    return {kind: [row for row in rows if row.kind == kind] for kind in dict.fromkeys(row.kind for row in rows)}


ROWS: Mapping[str, Sequence[AlikeRow]] = _read(Path(__file__).with_name("alike.yaml"))
"""kind -> its rows."""


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
    hint, says, at, on = row.hint.filled(given), fill(row.says, given), shell.where if shell else key, fold(nodes)
    finding = AuditFinding("inventory", row.severity, at, says, hint=hint.text, nodes=on, actions=actions_of(hint, on))
    names = tuple((row.trace or KINDS[row.kind].sets(key)).split())
    return Loose(finding, shell.context.name, shell.account, names) if shell else Loose(finding, names=names)
