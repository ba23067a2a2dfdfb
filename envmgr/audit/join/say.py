"""The causes in words: what differs, what users get, and what to do. Each kind of difference has one sentence, and at most one
fixed command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import TYPE_CHECKING

from envmgr.audit.findings import AuditFinding, Caused, as_caused, joined
from envmgr.audit.hints import actions_of
from envmgr.audit.inventory.alike import ROWS
from envmgr.audit.inventory.differences import as_on
from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.table import Steps, short
from envmgr.nodes.sets import expand, fold
from envmgr.report import Severity
from envmgr.wording import counted

if TYPE_CHECKING:
    from envmgr.audit.inventory.differences import Difference
    from envmgr.audit.join.join import Cause
    from envmgr.audit.join.relations import View

_ORDER = {"error": 0, "warning": 1, "note": 2}
_MANY, _SHOWN = 3, 3  # things of a kind in one folder that are one finding; lines of a file that differ
_START = ("/etc/bash", "/etc/csh", "/etc/profile", "/etc/zsh")


def said(causes: Iterable[Cause], view: View) -> tuple[Caused, ...]:
    """Return the causes as findings: those with harms first, worst first."""
    found = [caused(cause, view) for cause in _folded(causes)]
    return tuple(sorted(found, key=lambda of: (not of.consequences, _ORDER[of.severity], -len(of.consequences))))


def caused(cause: Cause, view: View) -> Caused:
    """Return one cause with what follows from it: first what differs, or a line that all nodes have, or a harm by itself."""
    harms = sorted(
        dict.fromkeys(harm.finding for harm in sorted(cause.harms, key=lambda harm: harm.stage)),
        key=lambda of: (cause.root.name not in (of.where, f"said: {of.found}"), _ORDER[of.severity]),
    )
    worst = min((_severity(cause.differences, view), *(of.severity for of in harms)), key=_ORDER.__getitem__)
    place = cause.root.name if cause.root.name.startswith("/") else ""
    if not cause.differences:
        head, *rest = joined(harms)
        is_path = place == cause.root.file  # or else a line, or words: others have another cause of it
        nodes = fold(cause.nodes - {""} if is_path else cause.nodes & {*expand(head.nodes)}) or head.nodes
        found = replace(head, nodes=nodes, severity=worst)
        if place and head.where != place:
            said = "nothing that differs explains it: is {} there, and does it work?"
            if not is_path:
                said = "{} does it: take that line away, unless it is intended"
            line = Steps(look=said.format(place))
            found = replace(found, hint=line.text, actions=actions_of(line, nodes))
        return as_caused(found, cause=place, consequences=tuple(rest))
    what = max(cause.differences, key=lambda of: (of.path == cause.root.file, KINDS[of.kind].depth))
    same = (of.nodes for of in cause.differences if (of.kind, of.key, of.value) == (what.kind, what.key, what.value))
    on = tuple(dict.fromkeys(chain(*same)))
    hint = _hint(replace(what, nodes=on), view)
    if hint.at == "here" and not view.shut.isdisjoint(on):
        hint = Steps(look=f"once ssh lets root in again: {hint.text}")
    finding = AuditFinding(
        "inventory",
        worst,
        place or (_shell(what) if what.where else cause.root.name),
        _sentence(cause, what),
        f"{as_on(what.others)}: {short(what.right or 'not there')}" if what.known else "",
        hint.text,
        fold(cause.nodes) if what.known else "",
        between="" if what.known else fold([*what.nodes, *what.others]),
        actions=actions_of(hint, fold(on)),
    )
    return as_caused(finding, cause=cause.root.name, consequences=tuple(joined(harms)))


def _shell(of: Difference) -> str:
    _, context, account, _ = f"{of.where}...".split(".", 3)
    return f"{context} ({account})"


def _told(of: Difference) -> tuple[Severity, str, Steps]:
    """Return severity, sentence and hint; what is known to harm anywhere is no less where it differs."""
    severity, says, hint = KINDS[of.kind].told(of.key, of.value, of.right, fold(of.nodes))
    rows = (row for row in ROWS.get(of.kind, ()) if not row.from_modules and row.fits(of.key, of.value or ""))
    return min(severity, next((row.severity for row in rows), severity), key=_ORDER.__getitem__), says, hint


def _severity(differences: Sequence[Difference], view: View) -> Severity:
    """Return the worst; of what is apart and harms nobody only that of start-up files, of what modules bring, and of errors."""
    found = ((_told(of)[0], of) for of in differences)
    start = (of.path for of in differences if of.path.startswith(_START) or view.seen.is_start_up(of.path))
    meant = {of.path for of in differences if of.path.rpartition("/")[0] not in view.brought}.difference(start)
    counts = (told for told, of in found if not of.apart or told == "error" or of.path not in meant)
    return min(counts, key=_ORDER.__getitem__, default="note")


def _sentence(cause: Cause, what: Difference) -> str:
    text = _told(what)[1]
    if not what.known:
        values = ((what.value, what.nodes), (what.right, what.others))
        told = ", ".join(f"{short(value or 'nothing')} on {fold(nodes)}" for value, nodes in values)
        text = f"{what.key} differs: {told}"
    more = len(cause.differences) - 1
    return f"{text} (and {counted(more, 'differences')} that come with it)" if more else text


def _hint(what: Difference, view: View) -> Steps:
    node, good = what.nodes[0], (what.others or ("",))[0]
    if not what.known:
        return Steps(look="make them alike; `--reference NODE` says which node is right")
    if steps := _told(what)[2]:
        return steps
    if what.right is None:
        return Steps(look="take it away, or give it to all")
    if what.kind != "file" or what.value is None:
        return Steps(look=f"make it as on {good}")
    lines = view.lines.get((node, what.path), ())
    shown = "; ".join(f"`{short(line.strip(), 80)}`" for line in lines[:_SHOWN])
    more = f" and {counted(len(lines) - _SHOWN, 'lines')} more" if len(lines) > _SHOWN else ""
    how = f"; what differs: {shown}{more}" if shown else ""
    return Steps(look=f"make it as on {good}{how}; `ssh {node} cat {what.key} | diff {what.key} -` on {good} shows it")


def _folded(causes: Iterable[Cause]) -> Iterator[Cause]:
    """Yield the causes; three or more of a kind in one folder, which harm nobody on the same nodes, are one, as is what has another name."""

    def folder(cause: Cause) -> tuple[str, str, str]:
        what = cause.differences[0]
        return what.kind, what.path.rpartition("/")[0], fold(cause.nodes)

    paths = [cause for cause in causes if cause.differences and cause.differences[0].path.count("/") > 1]
    yield from (cause for cause in causes if cause not in paths)
    for _, of in groupby(sorted(paths, key=folder), key=folder):
        many = sorted(of, key=lambda cause: (not cause.harms, cause.differences[0].right is None))
        ends = {(each.differences[0].value is None, each.differences[0].right is None) for each in many}
        if len(many) != 2 or ends != {(True, False), (False, True)}:
            yield from (cause for cause in many if cause.harms)
            many = [cause for cause in many if not cause.harms]
            if len(many) < _MANY:
                yield from many
                continue
        first, *rest = many
        for each in rest:
            first.differences += each.differences
            first.harms += each.harms
        yield first
