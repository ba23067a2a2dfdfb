"""`current` names the published generation on every node, and that generation is the same there, byte for byte.

A network file system shows a change only after its attribute-cache time. After a publish the audit waits that long, by
the mount's own options or by `mount.attribute_cache`. It then asks once more before it calls a node stale. The
generation's record is compared by its sha256, because an old copy of the prefix can have a generation with the same
number. The check also reports a prefix that was moved, because its modules lead to where it was made.
"""

from __future__ import annotations

from collections.abc import Iterable

from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan, PublishedGeneration
from envmgr.nodes.sets import fold
from envmgr.probe.prefix import generation_number, newer_generations
from envmgr.system.shelltext import assign, script_text


def probe(plan: AuditPlan) -> ProbeTexts:
    made = _places(plan.roots.values()) - {str(plan.site.prefix)}
    return {"prefix": assign(generation_made=next(iter(sorted(made)), "")) + script_text(__file__, "prefix.sh")}


def judge(evidence: Evidence) -> Rows:
    published = evidence.published
    if published is None:
        return
    yield from _moved(evidence, published)
    number = published.record.number
    if newer := newer_generations(evidence.fleet, number):
        having = [node for nodes in newer.values() for node in nodes]
        yield evidence.say("stale_here", number=number, newest=max(newer), having=fold(having))
        return
    for target, nodes in evidence.fleet.sound.by_value("current", default="").items():
        if target != f"generations/{number:04d}":
            other = generation_number(target)
            shown = f"generation {other}" if other is not None else target or "nothing"
            yield evidence.say("stale", nodes, target=shown, number=number)
    right = evidence.fleet.sound.only(lambda facts: facts.get("current") == f"generations/{number:04d}")
    for found, nodes in right.by_value("generation.record").items():
        if found != published.record_sha256:
            what = f"is another one ({found[:12]})" if found else "cannot be read"
            yield evidence.say("record", nodes, number=number, what=what, right=published.record_sha256[:12])


def _places(roots: Iterable[str]) -> set[str]:
    """Return the prefixes that installs were made for."""
    return {root.rsplit("/", 3)[0] for root in roots}


def _moved(evidence: Evidence, published: PublishedGeneration) -> Rows:
    """Yield nodes on which the path in the modules does not lead to the prefix, by a link or a mount."""
    roots = [spec.root for spec in published.specs.values()]
    made = ", ".join(sorted(_places(roots) - {str(evidence.site.prefix)}))
    if not made:
        return
    for there, nodes in evidence.fleet.sound.by_value("generation.there", default="").items():
        if there != "yes":
            yield evidence.say("moved", nodes, made=made)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published"}))
