"""What is known to harm users, or to change what programs do, also where all nodes have it alike: `alike.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from envmgr.audit.findings import AuditFinding, Loose
from envmgr.audit.hints import hint_of
from envmgr.audit.inventory.differences import Difference
from envmgr.audit.inventory.facts import read_inventory
from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.model import AskedShell, Evidence
from envmgr.audit.table import Steps, fill, read_yaml
from envmgr.nodes.sets import fold
from envmgr.probe.model import Group
from envmgr.report import Severity
from envmgr.system.models import FrozenModel


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


def alike(evidence: Evidence, known: Iterable[Difference]) -> Iterator[Loose]:
    """Yield a finding for each fact that a row fits, and that is not `known` to differ; its `names` are what sets it."""
    told = {(of.where, of.kind, of.key) for of in known}
    hosts = evidence.here.groups if evidence.here else ()
    places: list[tuple[AskedShell | None, Iterable[Group]]] = [(None, (*evidence.fleet.groups, *hosts))]
    places += [(shell, shell.fleet.groups) for shell in evidence.each_shell()]
    for shell, groups in places:
        where = shell.key if shell else ""
        found: dict[tuple[AlikeRow, str, str], list[str]] = {}
        for group in groups:
            values = read_inventory(group.facts, where).values
            modules = bool(values.get(("env", "LOADEDMODULES"))) or (shell is not None and shell.context.way != "ssh")
            for (kind, key), value in values.items():
                row = next((row for row in ROWS.get(kind, ()) if row.fits(key, value)), None)
                if row and (where, kind, key) not in told and not (row.from_modules and modules):
                    found.setdefault((row, key, value), []).extend(group.nodes)
        for (row, key, value), nodes in found.items():
            yield _said(row, key, value, nodes, shell, evidence)


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
    names = tuple((row.trace or KINDS[row.kind].sets(key)).split())
    return Loose(finding, shell.context.name, shell.account, names) if shell else Loose(finding, names=names)
