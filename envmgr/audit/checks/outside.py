"""Installs that somebody else made: on every node their trees are there, and are what was published.

An entry of the backend `existing` leads to a tree outside of the store, which envmgr neither made nor keeps. On each
node, the check lists each tree as the ordinary user: kinds, sizes and links of all its files, and their times where the
recipe says `manifest: times`. The list must be that of the published install. No file is opened: a file whose content
changed, and not its size, is found by `envmgr verify`, which names the files. The check `software` reports trees that
are gone, and what users cannot enter or start.
"""

from __future__ import annotations

from functools import partial

from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.probe.model import Facts, number_in
from envmgr.system.shelltext import script_text, words


def probe(plan: AuditPlan) -> ProbeTexts:
    if not plan.outside:
        return {}
    trees = (word for _, tree in sorted(plan.outside.items()) for word in (tree.path, tree.how, " ".join(tree.ignore)))
    return {"prefix": f"look_as_user outside {plan.share(4)} {words(script_text(__file__, 'look.sh'), *trees)}\n"}


def judge(evidence: Evidence) -> Rows:
    if evidence.published is None:
        return
    fleet = evidence.fleet.sound
    for number, (entry, tree) in enumerate(sorted(evidence.published.outside.items())):
        shapes = fleet.by_value(f"outside.shape.{number}")
        if changed := [node for shape, nodes in shapes.items() if shape != tree.shape for node in nodes]:
            row = "changed_on_some" if tree.shape in shapes else "changed"
            yield evidence.say(row, changed, entry=entry, path=tree.path)
        if late := fleet.only(partial(_is_unseen, number)).nodes:
            yield evidence.say("unseen", late, entry=entry, path=tree.path, seconds=evidence.plan.share(4))


def _is_unseen(number: int, facts: Facts) -> bool:
    """Return whether a node that has the user did not get to this tree in time."""
    return "outside.user" not in facts and (number_in(facts, "outside.seen") or 0) <= number


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published"}))
