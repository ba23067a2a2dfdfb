"""The questions of the inventory: shell text for a node, and for each of its shells."""

from __future__ import annotations

from envmgr.audit.ask.peer_addresses import peers_text
from envmgr.audit.plan import AuditPlan
from envmgr.probe.model import ProbeStage
from envmgr.system.shelltext import assign, script_text

_LEAST = 5  # seconds


def inventory_texts(plan: AuditPlan) -> dict[ProbeStage, str]:
    """Return stage -> the text that reports `inventory.KIND|KEY<TAB>VALUE` there."""
    given = assign(inventory_salt=plan.salt, inventory_seconds=max(_LEAST, plan.seconds // 2))
    given += script_text(__file__, "tell.sh")
    return {
        "node": given + peers_text(plan.peers) + script_text(__file__, "system.sh"),
        "context": given + script_text(__file__, "home.sh") + script_text(__file__, "shell.sh"),
    }
