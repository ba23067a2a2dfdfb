"""Loading an entry changes the environment in the same way on every node as on this host.

For a sample of entries (`--modules`), the entry is loaded in a clean environment with the ordinary user's MODULEPATH
and LMOD_RC. The whole environment afterwards is compared. It must equal what the same commands give on
this host with the published modules. Lmod's own variables, and variables that differ between accounts, are left out.
"""

from __future__ import annotations

from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import changed_lines
from envmgr.audit.table import short
from envmgr.probe.model import Fleet
from envmgr.system.shelltext import script_text
from envmgr.wording import escaped


def probe(plan: AuditPlan) -> ProbeTexts:
    return {} if plan.number is None or not plan.samples else {"login": script_text(__file__, "login.sh")}


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
    loads, found = evidence.plan.loads.get(entry), fleet.by_value(f"loading.env.{entry}")
    here = None if loads is None else "\n".join(escaped(line[:8000]) for line in loads.split("\n")[:500]).rstrip("\n")
    if here is not None and len(found) == 1 and here not in found:
        ((text, nodes),) = found.items()
        yield evidence.say("nowhere_as_here", between=nodes, entry=entry, changed=changed_lines(text, here))
        return
    right = max(found, key=lambda text: len(found[text]), default="") if here is None else here
    for text, nodes in found.items():
        if text != right:
            yield evidence.say("other", nodes, entry=entry, changed=short(changed_lines(text, right)))


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published"}))
