"""`current` names the published generation on every node, and that generation is the same there, byte for byte.

A network file system shows a change only after its attribute-cache time. After a publish the audit waits that long, by
the mount's own options or by `mount.attribute_cache`. It then asks once more before it calls a node stale. The
generation's record is compared by its sha256, because an old copy of the prefix can have a generation with the same
number. So is each file that the record names and Lmod or users read: modulefiles, Lmod's cache and its rc file. A cache
that is older than its time stamp is ignored by Lmod. The check also reports a prefix that was moved, because its
modules lead to where it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan, PublishedGeneration
from envmgr.catalog.site import Site
from envmgr.nodes.sets import fold
from envmgr.probe.prefix import generation_number, newer_generations
from envmgr.system.shelltext import assign, script_text
from envmgr.wording import and_more


def probe(plan: AuditPlan) -> ProbeTexts:
    made = _made(plan.site, plan.roots.values())
    return {"prefix": assign(generation_made=made[0] if made else "") + script_text(__file__, "prefix.sh")}


def judge(evidence: Evidence) -> Rows:
    published, fleet = evidence.published, evidence.fleet
    if published is None:
        return
    made = ", ".join(_made(evidence.site, (spec.root for spec in published.specs.values())))
    # The path in the modules must lead to the prefix, by a link or a mount.
    elsewhere = fleet.sound.only(lambda facts: facts.get("generation.there") != "yes").nodes
    if made and elsewhere:
        yield evidence.say("moved", elsewhere, made=made)
    if newer := newer_generations(fleet, published.record.number):
        having = fold(node for nodes in newer.values() for node in nodes)
        yield evidence.say("stale_here", number=published.record.number, newest=max(newer), having=having)
    else:
        yield from looked_at(partial(_seen, published), fleet.sound, evidence)


def _seen(published: PublishedGeneration, look: Look) -> Iterator[Said]:
    number, right = published.record.number, published.record_sha256
    target, record = look.get("current"), look.get("generation.record", right)
    if target != f"generations/{number:04d}":
        other = generation_number(target)
        yield say("stale", number=number, target=f"generation {other}" if other is not None else target or "nothing")
    elif record != right:
        what = f"is another one ({record[:12]})" if record else "cannot be read"
        yield say("record", number=number, what=what, right=right[:12])
    else:
        folder = f"{look.evidence.site.prefix}/{target}"
        for row, mark in (("other_files", ": FAILED"), ("old_cache", ": OLDER")):
            lines = [line.partition(mark)[0] for line in look.lines("generation.differs") if mark in line]
            if lines:
                yield say(row, number=number, paths=and_more([f"{folder}/{line}" for line in lines], 3))


def _made(site: Site, roots: Iterable[str]) -> list[str]:
    """Return the other prefixes that installs were made for."""
    return sorted({root.rsplit("/", 3)[0] for root in roots} - {str(site.prefix)})


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published"}))
