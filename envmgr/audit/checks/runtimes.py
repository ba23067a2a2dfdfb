"""Entries that need something of a node to run in, such as a container runtime, find it there.

An install may have a program of its own that fails on a node that lacks something, and says what
(`libexec/node-check`). The check starts it for every published entry that has one, in a login shell of the ordinary
user. For an image of a container it starts the node's runtime with the image, as a program of it would be started, and
names a program that no image has: the runtime must say just that. Nothing of the image is run.
"""

from __future__ import annotations

from envmgr.audit.model import Check, ProbeTexts
from envmgr.audit.plan import AuditPlan
from envmgr.store.expected import NODE_CHECK
from envmgr.system.shelltext import assign, script_text, words

SECONDS = 10


def probe(plan: AuditPlan) -> ProbeTexts:
    given = [word for each in plan.installs if each.checked for word in (each.entry, f"{each.root}/{NODE_CHECK}")]
    if not given:
        return {}
    text = script_text(__file__, "login.sh")
    return {"login": f"{assign(runtimes_limit=SECONDS)}set -- {words(*given)}\n{text}"}


CHECK = Check(probe=probe, wants=frozenset({"published"}))
