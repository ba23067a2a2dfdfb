"""The installs of the site's upstream: on every node they are where this site's modules name them, and as they were.

`upstream:` in site.yaml names another site's prefix, whose installs this site's own ones stand on. That prefix has its
own mount, its own administrators and its own `gc`. On each node, the ordinary user must be able to enter each of its
installs that the published generation names. The manifest beside the install must have the sha256 that the publish
wrote down. `envmgr verify` compares the files themselves.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.probe.model import Facts, number_in
from envmgr.system.shelltext import assign, script_text, words


def probe(plan: AuditPlan) -> ProbeTexts:
    if not plan.upstream:
        return {}
    given = assign(upstream_seconds=_seconds(plan), upstream_look=script_text(__file__, "look.sh"))
    arguments = words(*sorted(plan.upstream))
    return {"prefix": f"{given}set -- {arguments}\n{script_text(__file__, 'prefix.sh')}"}


def _seconds(plan: AuditPlan) -> int:
    return max(2, plan.seconds // 4)


def judge(evidence: Evidence) -> Rows:
    published = evidence.published
    if published is None:
        return
    fleet = evidence.fleet.sound
    for number, (path, right) in enumerate(sorted(published.upstream.items())):
        entries, top = ", ".join(published.record.installs[path]), str(Path(path).parents[2])
        for reason, nodes in fleet.by_value(f"upstream.bad.{number}").items():
            row = "gone_on_some" if len(nodes) < len(fleet.nodes) else "gone"
            yield evidence.say(row, nodes, path=path, entries=entries, top=top, reason=reason)
        for found, nodes in fleet.by_value(f"upstream.manifest.{number}").items():
            if right and found != right:
                said = f"is another one ({found[:12]})" if found else "cannot be read"
                yield evidence.say("other", nodes, path=path, entries=entries, top=top, said=said, right=right[:12])
        if late := fleet.only(partial(_is_unseen, number)).nodes:
            yield evidence.say("unseen", late, path=path, entries=entries, top=top, seconds=_seconds(evidence.plan))


def _is_unseen(number: int, facts: Facts) -> bool:
    """Return whether a node that has the user did not get to this install in time."""
    return "upstream.user" not in facts and (number_in(facts, "upstream.seen") or 0) <= number


CHECK = Check(judge=judge, joins=True, probe=probe, wants=frozenset({"published"}))
