"""Names resolve alike: a node's name is its own address, not loopback, and all nodes ask the same resolvers.

In a job of several nodes, a node gives the others the address that its own name has on it. That address may be
127.0.1.1 (as installers of Debian and cloud-init write it) or on no interface of the node, or there may be none. Then
Gloo, NCCL and MPI connect to nobody: one node fails, and the others wait until the job's time limit, without a message
about names. The check reports this for a single node, and where all nodes are alike. It is an error where a published
entry has a test of several nodes, because jobs of that entry hang. Elsewhere, and on login nodes, it is a warning,
because jobs on one node run. A site with a single node is not reported, because no other node asks for its address.

The names of the other asked nodes are compared, too. Each node reports the names that have another address there than
on this host. Nodes in the same groups are judged against each other. An address that the named node has is right. An
address that it lacks is an error, because jobs over both nodes fail. If each address is one of the named node's, or
that node did not answer, most nodes are right. Each node asks once for all names. In a cluster with more than 256 nodes
it asks for 256 names, and for others the next day, to spare the name server.

The loopback interface must be up. Nodes must ask the same resolvers in the same order: /etc/resolv.conf and
/etc/nsswitch.conf are compared between nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from envmgr.audit.ask.peer_addresses import NONE, peers_text, read_peers
from envmgr.audit.compare.between_nodes import values_of_like_nodes
from envmgr.audit.model import Check, Evidence, ProbeTexts, Row, Rows, Values
from envmgr.audit.plan import AuditPlan
from envmgr.audit.table import Steps
from envmgr.probe.model import Facts
from envmgr.report import Severity
from envmgr.system.shelltext import appended, script_text

_PLACE, _ADDRESS = re.compile(r"/etc/hosts:(\d+)"), re.compile(r"[0-9A-Fa-f.:]+")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LOOP = re.compile(r"(^|,)(127\.|::1(,|$))")  # never another node
_SHOWN = 3  # so many names, with their addresses, are in a node's finding


def probe(plan: AuditPlan) -> ProbeTexts:
    return {"node": peers_text(plan.peers) + script_text(__file__, "node.sh")}


def judge(evidence: Evidence) -> Rows:
    fleet = evidence.looked("names")
    for fact in ("hung", "loopback"):
        for nodes in fleet.by_value(f"names.{fact}").values():
            yield evidence.say(fact, nodes)
    if _spans_nodes(evidence):
        yield from _own_names(evidence)
    yield from _of_peers(evidence)
    for key, file in (("resolver", "/etc/resolv.conf"), ("switch", "/etc/nsswitch.conf")):
        values = fleet.by_value(f"names.{key}", default="")
        yield evidence.compared("file", values, file=file)


def _spans_nodes(evidence: Evidence) -> bool:
    """Return True if the site has several nodes on which jobs can run, whichever of them were asked."""
    nodes = {node for of_group in evidence.groups.values() for node in of_group} or {*evidence.nodes}
    return len(nodes - evidence.login) > 1


def _own_names(evidence: Evidence) -> Rows:
    specs = evidence.published.specs if evidence.published is not None else {}
    jobs_span = any(test.nodes > 1 for spec in specs.values() for test in spec.tests)
    told: dict[tuple[Severity, str, Steps], list[str]] = {}
    for group in evidence.looked("names").groups:
        if found := _found(group.facts):
            for node in group.nodes:
                severity: Severity = "error" if jobs_span and node not in evidence.login else "warning"
                told.setdefault((severity, found, _hint(group.facts)), []).append(node)
    for (severity, found, hint), nodes in told.items():
        yield evidence.say("own", nodes, severity=severity, found=found, hint=hint)


def _found(facts: Facts) -> str:
    own, foreign = facts.get("names.own", ""), facts.get("names.foreign")
    if own == "nothing":
        return "resolves to nothing"
    if own:
        return f"resolves to {own} on the node itself"
    return f"resolves to {foreign}, an address that the node does not have" if foreign else ""


def _hint(facts: Facts) -> Steps:
    line = facts.get("names.line")
    if line is None:
        what = "its name with its own address in /etc/hosts, or in DNS: MPI, Gloo and NCCL take it from there"
        return Steps(look=f"on the node: {what}")
    why = "MPI, Gloo and NCCL take the address from there"
    if "names.writer" in facts:
        why += "; cloud-init writes it again at each start: `manage_etc_hosts: false` in its settings"
    if "names.shared" in facts:
        place = _PLACE.fullmatch(line) if "names.other" in facts else None  # a node says it
        run = _without('"$(uname -n)"', place[1]) if place else ""
        own = f"the node's own address in a line of its own, and not in {line}, which others share"
        return Steps(run=run, look=why if run else f"on the node: {own}: {why}")
    if "names.other" in facts:
        return Steps(delete=line, because="names the node", look=why)
    return Steps(look=f"on the node: the node's own address in the line {line}: {why}")


def _without(name: str, number: str) -> str:
    """Return the command that takes a name, a quoted word, out of a line of /etc/hosts that others share."""
    return f"sed -i -E {number}'s/[[:space:]]+'{name}'([[:space:]]|$)/\\1/I' /etc/hosts"


def _of_peers(evidence: Evidence) -> Rows:
    """Yield wrong names of other nodes: one finding for all names that are wrong on the same nodes."""
    fleet = evidence.looked("names")
    # with the names that have another address there than on this host, and whether these are all
    answers = [(g, read_peers(g.facts.get("names.peers", "")), "names.peers_hung" not in g.facts) for g in fleet.groups]
    wrong: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}
    for name in sorted({name for _, found, _ in answers for name in found}):
        values: dict[str, list[str]] = {}
        for group, found, whole in answers:
            if whole or name in found:
                of_group = [node for node in group.nodes if _label(node) != _label(name)]
                values.setdefault(found.get(name, evidence.plan.peers.get(name, NONE)), []).extend(of_group)
        for known in values_of_like_nodes({value: tuple(nodes) for value, nodes in values.items() if nodes}, evidence):
            if len(known) > 1:
                bad = _not_its_own(name, known, evidence)
                for value, right in bad.items():
                    wrong.setdefault(known[value], []).append((name, value, right))
                left = {value: nodes for value, nodes in known.items() if value not in bad}
                yield evidence.compared("peer", left, kept=False, say=_is, name=name)
    for nodes, names_there in wrong.items():
        yield _wrong_peers(nodes, names_there, _places(nodes[0], evidence), evidence)
    for nodes in fleet.by_value("names.peers_hung").values():
        yield evidence.say("peers_hung", nodes)


def _not_its_own(name: str, values: Values, evidence: Evidence) -> dict[str, str]:
    """Return each value that is no address of the node called `name` -> the value that is.

    The result is empty if no value is right, or if a reference decides.
    """
    node = next((node for node in evidence.nodes if _label(node) == _label(name)), "")
    own = frozenset(evidence.fleet.own.get(node, {}).get("addresses", "").split())
    right = [value for value in values if own.intersection(value.split(",")) and not _LOOP.search(value)]
    if not right or any(evidence.reference in nodes for nodes in values.values()):
        return {}
    return {value: right[0] for value in values if value not in right}


def _places(node: str, evidence: Evidence) -> dict[str, tuple[str, bool]]:
    """Return name -> the line of /etc/hosts that gives the name the address it has on the node, and whether others share it."""
    lines = next((g.facts.get("names.peers", "") for g in evidence.fleet.groups if node in g.nodes), "")
    rows = (line.split() for line in lines.splitlines())
    return {fields[0]: (fields[2], fields[3:] == ["shared"]) for fields in rows if len(fields) in (3, 4)}


def _wrong_peers(
    nodes: tuple[str, ...],
    wrong: list[tuple[str, str, str]],
    places: Mapping[str, tuple[str, bool]],
    evidence: Evidence,
) -> Row:
    told = [
        f"{name} {_is(value)}{f' ({places[name][0]})' if name in places else ''}" for name, value, _ in wrong[:_SHOWN]
    ]
    more = f"; and {len(wrong) - _SHOWN} others" if len(wrong) > _SHOWN else ""
    expected = "; ".join(f"{name} {_is(right)}, which it has" for name, _, right in wrong[:_SHOWN])
    name, value, right = wrong[0]
    address, (line, shared) = right.partition(",")[0], places.get(name, ("", False))
    if len(wrong) > 1:
        hint = Steps(look="the same /etc/hosts on every node, or names in DNS")
    elif (place := _PLACE.fullmatch(line)) and _ADDRESS.fullmatch(address) and _NAME.fullmatch(name):  # nodes say both
        run = f"sed -i '{place[1]}s/^[^[:space:]]*/{address}/' /etc/hosts"
        if shared:
            add = "" if address in value.split(",") else f" && {appended(f'{address} {name}', '/etc/hosts')}"
            run = f"{_without(name, place[1])}{add}"
        hint = Steps(run=run)
    elif value == NONE:
        hint = Steps(run=appended(f"{address} {name}", "/etc/hosts"), look="or fix the DNS that it asks")
    else:
        what = "`getent hosts`, and the DNS that it asks: /etc/resolv.conf, /etc/nsswitch.conf"
        hint = Steps(look=f"on the node: {what}")
    return evidence.say("wrong_peers", nodes, names="; ".join(told) + more, expected=expected, hint=hint)


def _is(addresses: str) -> str:
    return "resolves to nothing" if addresses == NONE else f"is {addresses.replace(',', ', ')}"


def _label(name: str) -> str:
    return name.partition(".")[0].lower()


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"peers"}))
