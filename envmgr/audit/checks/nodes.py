"""Every node that was asked answers, and answers for itself.

A node that does not answer is a finding, never a gap in the table: unreachable (no connection, no job), or silent (it was
reached, and no whole answer came in time). A node that answers under another node's name is told too: a wrong address, a
wrong line in /etc/hosts or an ssh alias makes an audit look at one node twice and at another never.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping

from envmgr.audit.checks._folding import joined
from envmgr.audit.model import Evidence, Facts, Fleet, Plan, Stage
from envmgr.finding import Finding
from envmgr.nodes import fold

_NAMES = {"ssh": "ssh", "slurm": "Slurm (inherited environment)", "slurm-none": "Slurm (--export=NONE)"}


def probe(plan: Plan) -> Mapping[Stage, str]:  # noqa: ARG001 - every answer begins with the node's name
    return {}


def judge(evidence: Evidence) -> Iterator[Finding]:
    yield from joined(_missing(evidence))
    for way, fleet in evidence.ways.items():
        yield from _strangers(way, fleet)
        for value, nodes in fleet.by_value("probe").items():
            yield Finding(
                "nodes", "error", _NAMES.get(way, way), value, "an answer", "free space in /tmp?", fold(nodes)
            )


def _missing(evidence: Evidence) -> Iterator[Finding]:
    for way, fleet in evidence.ways.items():
        by_reason: dict[tuple[str, str], list[str]] = {}
        for reply in fleet.missing:
            by_reason.setdefault((reply.status, reply.reason), []).append(reply.node)
        for (status, reason), nodes in by_reason.items():
            folded = fold(nodes)
            command = (
                f"ssh {nodes[0]} true" if way == "ssh" else f"srun -w {nodes[0]} true; scontrol show node {nodes[0]}"
            )
            yield Finding(
                "nodes", "error", _NAMES.get(way, way), f"{status}: {reason}", "an answer", f"try `{command}`", folded
            )


def _strangers(way: str, fleet: Fleet) -> Iterator[Finding]:
    for node in fleet.nodes:
        own = fleet.own.get(node, {})
        if not _is(node, own):
            hint = f"look at the address of {node} in /etc/hosts, DNS and ssh's config"
            yield Finding(
                "nodes", "error", _NAMES.get(way, way), f"answers as {own.get('host', 'nobody')}", node, hint, node
            )


def _is(node: str, own: Facts) -> bool:
    """By name; else by address, which an ssh alias or a node set of addresses needs."""
    if own.get("slurm_node") == node or _short(own.get("host", "")) == _short(node):
        return True
    try:
        found = {info[4][0] for info in socket.getaddrinfo(node, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return False
    return any(str(a).startswith("127.") or a in own.get("addresses", "").split() for a in found)


def _short(name: str) -> str:
    return name.partition(".")[0].lower()
