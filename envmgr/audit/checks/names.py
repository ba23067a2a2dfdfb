"""Names resolve alike: a node's own name is its address, not a loopback, and all nodes ask the same resolver in the same order.

Where a node's name is 127.0.1.1 to itself (as installers of Debian write it), MPI, NCCL and Gloo tell the other nodes that address, and a
job of several nodes hangs. On one node it is a warning, on all a note: sites live with it. The loopback interface is up. /etc/resolv.conf and the lines of
/etc/nsswitch.conf for hosts and accounts are compared between nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.comparing import drift
from envmgr.audit.folding import short
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.finding import Finding, Severity
from envmgr.nodes import fold
from envmgr.probe.model import ProbeStage
from envmgr.system.shelltext import script_text


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"node": script_text(__file__, "node.sh")}


def judge(evidence: Evidence) -> Iterator[Finding]:
    fleet = evidence.looked("names")
    for nodes in fleet.by_value("names.hung").values():
        yield Finding(
            "names", "error", "its own name", "is not resolved within 5 s", "an answer", "does the node's resolver answer? /etc/resolv.conf", fold(nodes)
        )  # fmt: skip
    for nodes in fleet.by_value("names.loopback").values():
        yield Finding(
            "names", "error", "lo", "the loopback interface is down: 127.0.0.1 does not answer", "an interface that is up",
            "on the node: `ip link set lo up`, and what sets up its network", fold(nodes),
        )  # fmt: skip
    owns = fleet.by_value("names.own")
    for own, nodes in owns.items():
        if not own:
            continue
        severity: Severity = "note" if own != "nothing" and len(owns) == 1 else "warning"
        yield Finding(
            "names", severity, "its own name", "resolves to nothing" if own == "nothing" else f"resolves to {own} on the node itself",
            "the node's address", "on the node: its name and address in /etc/hosts, and no line with 127.0.1.1 for it: MPI and NCCL take it from there",
            fold(nodes),
        )  # fmt: skip
    for key, file in (("resolver", "/etc/resolv.conf"), ("switch", "/etc/nsswitch.conf")):
        yield from drift(
            "names", file, fleet.by_value(f"names.{key}", default=""), evidence, hint=f"the same {file} on every node",
            say=lambda lines: short("; ".join(lines.splitlines())) or "nothing",
        )  # fmt: skip


__all__ = ["judge", "probe"]
