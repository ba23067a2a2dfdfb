"""Loading an entry changes the environment in the same way on every node as on this host.

For a sample of entries (`--modules`), the entry is loaded in a clean environment with the ordinary user's MODULEPATH
and LMOD_RC. The whole environment afterwards is compared by its sha256. It must equal what the same commands give on
this host with the published modules. Lmod's own variables, and variables that differ between accounts, are left out.
"""

from __future__ import annotations

import hashlib

from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import changed_lines, shared
from envmgr.audit.table import short
from envmgr.probe.model import Fleet
from envmgr.system.shelltext import script_text
from envmgr.wording import escaped


def probe(plan: AuditPlan) -> ProbeTexts:
    if plan.number is None or not plan.samples:
        return {}
    return {"login": shared("effect") + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Rows:
    if evidence.published is None:
        return
    fleet = evidence.shells.where("current", f"generations/{evidence.published.record.number:04d}")
    for entry in evidence.plan.samples:
        for said, nodes in fleet.by_value(f"loading.failed.{entry}").items():
            yield evidence.say("failed", nodes, entry=entry, said=said)
        yield from _differences(entry, fleet, evidence)


def _differences(entry: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield nodes where loading the entry gives another environment than on this host.

    If no node agrees with this host, nodes are compared with each other, and none is accused of differing from this
    host.
    """
    here = evidence.plan.loads.get(entry)
    found = fleet.by_value(f"loading.sha256.{entry}")
    texts = {value: _text(entry, value, fleet) for value in found}
    if here is not None and _sum(here) in found:
        for value, nodes in found.items():
            if value != _sum(here):
                other = _other(texts[value], escaped(here, "\n"))
                yield evidence.say("other_than_here", nodes, entry=entry, other=other)
        return
    if here is not None and len(found) == 1:
        ((value, nodes),) = found.items()
        changed = changed_lines(texts[value], escaped(here, "\n"))
        yield evidence.say("nowhere_as_here", between=nodes, entry=entry, changed=changed)
    yield evidence.compared(  # a baseline may have another environment
        "environment", found, entry=entry, told=lambda of: _other(texts[of.value], texts.get(of.right, ""))
    )


def _other(text: str, reference: str) -> str:
    return f"gives another environment: {short(changed_lines(text, reference))}"


def _text(entry: str, value: str, fleet: Fleet) -> str:
    alike = (g.facts for g in fleet.groups if g.facts.get(f"loading.sha256.{entry}") == value)
    return next((facts.get(f"loading.env.{entry}", "") for facts in alike), "")


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published", "modules"}))
