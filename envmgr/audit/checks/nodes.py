"""Every node that was asked answers, and answers for itself.

A node that does not answer is a finding, never a gap in the table: unreachable (no connection, no job), or silent (it was
reached, and no whole answer came in time). A node that answers under another node's name is told too: a wrong address, a
wrong line in /etc/hosts or an ssh alias makes an audit look at one node twice and at another never.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping

from envmgr.audit.folding import joined
from envmgr.audit.model import Evidence, Facts, Fleet, Plan, Stage
from envmgr.finding import Finding, Severity
from envmgr.nodes import fold

_STAGES = {"node": "looking at the node", "prefix": "reading the prefix", "login": "asking Lmod in a login shell"}
_NAMES = {"ssh": "ssh", "slurm": "Slurm (inherited environment)", "slurm-none": "Slurm (--export=NONE)"}


def probe(plan: Plan) -> Mapping[Stage, str]:  # noqa: ARG001 - every answer begins with the node's name
    return {}


def judge(evidence: Evidence) -> Iterator[Finding]:
    yield from joined(_missing(evidence))
    for way, fleet in evidence.ways.items():
        yield from _strangers(way, fleet)
        yield from _unfinished(way, fleet)
        for value, nodes in fleet.by_value("probe").items():
            yield Finding(
                "nodes", "error", _NAMES.get(way, way), value, "an answer", "free space in /tmp?", fold(nodes)
            )


def _missing(evidence: Evidence) -> Iterator[Finding]:
    for way, fleet in evidence.ways.items():
        by_reason: dict[tuple[str, str], list[str]] = {}
        for reply in fleet.missing:
            reason = re.sub(r"\bStepId=[0-9.]+ ?", "", reply.reason)  # a number of its own for every node
            by_reason.setdefault((reply.status, reason), []).append(reply.node)
        for (status, reason), nodes in by_reason.items():
            hint = _hint(way, reason, fold(nodes), nodes[0])
            severity: Severity = "note" if "prefix does not answer" in reason else "error"  # by the check of mounts
            yield Finding(
                "nodes", severity, _NAMES.get(way, way), f"{status}: {reason}", "an answer", hint, fold(nodes)
            )


# What ssh says -> the command that mends it, with one node's name.
_HINTS = (
    (r"connection refused", "on {node}: `systemctl start sshd` (`ssh` on Debian)"),
    (r"host key", "was {node} installed anew? then `ssh-keygen -R {node}`, and put its new key into known_hosts"),
    (r"permission denied", "`ssh-copy-id {node}`; who logs in is `transport: {{user: …}}` in site.yaml"),
    (r"timed out|no route", "is {node} on, and on the network? `ping {node}`"),
    (r"resolve|name or service", "put {node} into DNS or /etc/hosts"),
    (r"sudo", "let that user run `sudo -n /bin/sh`, by NOPASSWD in sudoers"),
    (r"no answer in", "`ssh {node} true` by hand: does a start-up file hang, or is the node out of memory?"),
)


def _hint(way: str, reason: str, nodes: str, node: str) -> str:
    if "Communication" in reason or "not respond" in reason:
        return f"on {node}: `systemctl restart slurmd`"
    if "no job was sent" in reason:
        return "another finding tells why"
    if way != "ssh":
        return f"`scontrol show node {nodes}`; `scontrol update nodename={nodes} state=resume` once it is well"
    for pattern, hint in _HINTS:
        if re.search(pattern, reason, re.IGNORECASE):
            return hint.format(node=node)
    return f"try `ssh {node} true`"


def _unfinished(way: str, fleet: Fleet) -> Iterator[Finding]:
    for stage, what in _STAGES.items():
        for end, nodes in fleet.by_value(f"{stage}.end").items():
            hint = f"is the node, its network or the file server very slow? `ssh {nodes[0]}`, then `time module avail`"
            yield Finding("nodes", "error", _NAMES.get(way, way), f"{what}: {end}", "an end", hint, fold(nodes))


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
