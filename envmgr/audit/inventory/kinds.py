"""The kinds of the inventory, `kinds.yaml`: what a difference of each is, how near it is to a cause, and what is said of it
where it harms nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from envmgr.audit.table import Steps, fill, read_yaml
from envmgr.probe.model import ProbeStage
from envmgr.report import Severity
from envmgr.system.models import FrozenModel

How = Literal["added", "gone", "mode", "options", "over", "empty", "changed"]
"""How a value differs: there is one where others have none, or none where they have one; only by a mode, or by options of a mount, or by what
is mounted over it; a program that is empty; or by more.
"""

Scope = Literal["node", "shell", "login", "slurm"]
"""What reports a kind: the node, each shell, the user's modules, this host's Slurm."""

STAGES: Mapping[Scope, ProbeStage] = {"node": "node", "shell": "context", "login": "login", "slurm": "node"}
"""The stage of the probe in which a kind is reported; Slurm's rows are read on this host."""

_HOW: Mapping[How, str] = {
    "added": "is there, and not on others",
    "gone": "is not there",
    "mode": "has another mode",
    "options": "has other options",
    "over": "is hidden",
    "empty": "is empty",
    "changed": "is not as on others",
}
_MODE = re.compile(r"(?<![^ ])[0-7]{3,4}(?= )")
_EMPTY = re.compile(r"\d+ [^ ]+:[^ ]+ 0$")
_SALTED = re.compile(r"~[0-9a-f]{12}\b")


class KindRow(FrozenModel):
    """Words for differences whose key has the regex `key`, and that are `when`. What it lacks the next row has.

    In `says` and `hint` stand `{key}`, `{how}` it differs, `{value}`, `{right}`, `{nodes}`; in a hint also the right `{mode}`, the
    `{options}` of a mount that are to be, and `{again}`: the key once more for each further mount at that place.
    """

    key: str = ""
    when: tuple[How, ...] = ()
    severity: Severity | None = None
    says: str = ""
    hint: Steps = Steps()


class InventoryKind(FrozenModel):
    """One kind. `scope` is what reports it. A `symptom` is no cause where a difference that has a relation to it is one.

    The greater its `depth`, from 0 to 1, the nearer it is to a cause. A `baseline` has it, or not. A line of a start-up file is
    what sets it: the variable or command `set_by`, or else that of its key; or a file whose path the regex `kept_in` fits.
    """

    scope: Scope
    symptom: bool = False
    depth: float
    baseline: bool = True
    set_by: str = ""
    kept_in: str = ""
    rows: tuple[KindRow, ...] = ()

    def sets(self, key: str) -> str:
        """Return the variable or command of a start-up file that sets this."""
        return self.set_by.replace("{key}", key) or key.split(" ", maxsplit=1)[0]

    def in_baseline(self, value: str) -> bool:
        """Return whether a baseline has this value: a digest that is good for one audit is no use to another."""
        return self.baseline and _SALTED.match(value) is None

    def told(self, key: str, value: str | None, right: str | None, nodes: str) -> tuple[Severity, str, Steps]:
        """Return the severity, the sentence and the hint of a difference; None is a value that is not there."""
        how = how_it_differs(value, right)
        rows = [*self._rows(key, how)]
        given = {
            "key": key,
            "how": _HOW[how],
            "value": "not there" if value is None else value,
            "right": "not there" if right is None else right,
            "nodes": nodes,
            "mode": mode[0] if right and (mode := _MODE.search(right)) else "",
            "options": _missing_options(value, right),
            "again": fill(" {key!q}", {"key": key}) * (f"{value}".count(" + ") - f"{right}".count(" + ") - bool(right)),
        }
        severity: Severity = next((row.severity for row in rows if row.severity is not None), "note")
        says = next((row.says for row in rows if row.says), "{key} is {value}; {right} on others")
        hint = next((row.hint for row in rows if row.hint), Steps())
        had, wanted = (int(mode[0], 8) if (mode := _MODE.search(text or "")) else 0 for text in (value, right))
        if how == "mode" and had & ~wanted & 0o555:  # no command closes what users may need
            hint = Steps(look=f"make its mode {given['mode']}, unless users need what that takes away")
        return severity, fill(says, given), hint.filled(given)

    def _rows(self, key: str, how: How) -> Iterator[KindRow]:
        return (row for row in self.rows if re.search(row.key, key) and (not row.when or how in row.when))


def how_it_differs(value: str | None, right: str | None) -> How:
    """Return how a value differs from the right one."""
    if right is None:
        return "added"
    if value is None:
        return "gone"
    if _missing_options(value, right):
        return "options"
    if value.startswith(f"{right} + "):
        return "over"
    if _EMPTY.match(value) and not _EMPTY.match(right):
        return "empty"
    if _told(value) != _told(right):  # one is closed to others: no more can be compared than what follows
        value, right = value.partition(" ")[2], right.partition(" ")[2]
    return "mode" if _MODE.sub("", value) == _MODE.sub("", right) else "changed"


def _told(value: str) -> bool:
    """Return whether a value begins with what can be compared between nodes of any mode: no digest for one audit, no `-`."""
    return not value.startswith(("~", "- "))


def _missing_options(value: str | None, right: str | None) -> str:
    """Return the options that give a mount those of the right one, where both are the same file system.

    Both are `TYPE SOURCE OPTIONS [OPTIONS OF THE FILE SYSTEM]`, of mounts one over the other with ` + ` between. Where only the
    mount's own differ, `bind` leaves the file system, and its server, as they are.
    """
    (*of, has, super_has), (*usual, wanted, super_wanted) = (
        (f"{text or ''}".rpartition(" + ")[2].split(" ", 3) + [""] * 4)[:4] for text in (value, right)
    )
    if of != usual or not of[0][:1].isalpha() or ("/" not in of[1] and " + " in f"{value}"):
        return ""
    had, want = has.split(","), wanted.split(",")
    off = [option.removeprefix("no") for option in had if option.startswith("no") and option not in want]
    other = [*(option for option in want if option not in had), *off]
    return ",".join(["bind"] * (super_has == super_wanted and bool(other)) + other)


def _read(path: Path) -> dict[str, InventoryKind]:
    return {name: InventoryKind.model_validate(kind) for name, kind in read_yaml(path).items()}


KINDS: Mapping[str, InventoryKind] = _read(Path(__file__).with_name("kinds.yaml"))
"""name -> kind."""
