"""Names resolve alike: a node's own name is its own address, no loopback, and all nodes ask the same resolver in the same order.

A job of several nodes tells the others of a node by the address that this node's name has on it. Where that is 127.0.1.1 (as
installers of Debian and cloud-init write it), an address of no interface of the node, or none, Gloo, NCCL and MPI connect to nobody:
one node fails, and the others wait to the job's time limit, with no word of a name. So it is told of one node and of all alike.
Where a published entry has a test of several nodes it is an error: jobs of it hang. Elsewhere, and on login nodes, it is a warning,
as jobs on one node run. A site of a single node is not accused: nobody else asks for its address.

The loopback interface is up. /etc/resolv.conf and the lines of /etc/nsswitch.conf for hosts and accounts are compared between nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.comparing import drift
from envmgr.audit.folding import short
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.finding import Finding, Severity
from envmgr.nodes import fold
from envmgr.probe.model import Facts, ProbeStage
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
    if _spans_nodes(evidence):
        yield from _own_names(evidence)
    for key, file in (("resolver", "/etc/resolv.conf"), ("switch", "/etc/nsswitch.conf")):
        yield from drift(
            "names", file, fleet.by_value(f"names.{key}", default=""), evidence, hint=f"the same {file} on every node",
            say=lambda lines: short("; ".join(lines.splitlines())) or "nothing",
        )  # fmt: skip


def _spans_nodes(evidence: Evidence) -> bool:
    """Whether the site has several nodes that jobs can be on, whichever of them were asked."""
    nodes = {node for of_group in evidence.groups.values() for node in of_group} or {*evidence.nodes}
    return len(nodes - evidence.login) > 1


def _own_names(evidence: Evidence) -> Iterator[Finding]:
    specs = evidence.published.specs if evidence.published is not None else {}
    jobs_span = any(test.nodes > 1 for spec in specs.values() for test in spec.tests)
    told: dict[tuple[Severity, str, str], list[str]] = {}
    for group in evidence.looked("names").groups:
        if found := _found(group.facts):
            for node in group.nodes:
                severity: Severity = "error" if jobs_span and node not in evidence.login else "warning"
                told.setdefault((severity, found, _hint(group.facts)), []).append(node)
    for (severity, found, hint), nodes in told.items():
        yield Finding("names", severity, "its own name", found, "the node's address", hint, fold(nodes))


def _found(facts: Facts) -> str:
    own, foreign = facts.get("names.own", ""), facts.get("names.foreign")
    if own == "nothing":
        return "resolves to nothing"
    if own:
        return f"resolves to {own} on the node itself"
    return f"resolves to {foreign}, an address that the node does not have" if foreign else ""


def _hint(facts: Facts) -> str:
    line = facts.get("names.line")
    if line is None:
        return (
            "on the node: its name with its own address in /etc/hosts, or in DNS: MPI, Gloo and NCCL take it from there"
        )
    mend = f"take the line {line} away" if "names.other" in facts else f"the node's own address in the line {line}"
    again = (
        "; cloud-init writes it anew at each start: `manage_etc_hosts: false` in its settings"
        if "names.writer" in facts
        else ""
    )
    return f"on the node: {mend}: MPI, Gloo and NCCL take the address from there{again}"


__all__ = ["judge", "probe"]
