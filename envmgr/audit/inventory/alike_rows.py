"""The table `alike.yaml`: what is known to harm users, or to change what programs do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from envmgr.audit.table import Steps, read_yaml
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
