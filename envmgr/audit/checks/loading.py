"""Loading an entry changes the environment in the same way on every node as on this host.

For a sample of entries (`--modules`), the entry is loaded in a clean environment with the ordinary user's MODULEPATH
and LMOD_RC. The whole environment afterwards is compared by its sha256. It must equal what the same commands give on
this host with the published modules. Lmod's own variables, and variables that differ between accounts, are left out.
"""

from __future__ import annotations

import hashlib

from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import changed_lines
from envmgr.audit.table import short
from envmgr.probe.model import Fleet
from envmgr.system.shelltext import script_text
from envmgr.wording import escaped


def probe(plan: AuditPlan) -> ProbeTexts:
    if plan.number is None or not plan.samples:
        return {}
    return {"login": script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Rows:
    if evidence.published is None:
        return
    current = f"generations/{evidence.published.record.number:04d}"
    fleet = evidence.shells.only(lambda facts: facts.get("current") == current)
    for entry in evidence.plan.samples:
        for said, nodes in fleet.by_value(f"loading.failed.{entry}").items():
            yield evidence.say("failed", nodes, entry=entry, said=said)
        yield from _differences(entry, fleet, evidence)


def _differences(entry: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield nodes where loading the entry gives another environment than on this host, or without Lmod here than on most.

    If nodes agree with each other and not with this host, none is accused.
    """
    here = evidence.plan.loads.get(entry)
    found = fleet.by_value(f"loading.sha256.{entry}")
    texts = {value: fleet.told[nodes[0]].get(f"loading.env.{entry}", "") for value, nodes in found.items()}
    if here is not None and len(found) == 1 and _sum(here) not in found:
        ((value, nodes),) = found.items()
        changed = changed_lines(texts[value], escaped(here, "\n"))
        yield evidence.say("nowhere_as_here", between=nodes, entry=entry, changed=changed)
        return
    right = _sum(here) if here is not None else max(found, key=lambda value: len(found[value]), default="")
    reference = escaped(here, "\n") if here is not None else texts.get(right, "")
    for value, nodes in found.items():
        if value != right:
            yield evidence.say("other", nodes, entry=entry, changed=short(changed_lines(texts[value], reference)))


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published"}))
