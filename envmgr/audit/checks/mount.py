"""The prefix is usable on every node: from the right server, answering in time, writable only where it should be.

Locks must be shared by all hosts that write there.

Every probe reads how a node has the prefix from /proc/self/mountinfo, which no mount can hang. Then a separate process
touches the prefix, and is left behind if it does not come back (autofs mounts at that moment). All other questions go
only to nodes that answered, also the one about the ordinary user's access to the prefix. The right server is
that of `mount:` in site.yaml, or else that of most like nodes.

Other network mounts of a node, and mounts of programs (sshfs), must answer, too. A shell that touches a mount without
an answer never ends. What shells lack on such a node is not reported separately, and no job is sent there. A local
folder where the other nodes have a network mount is an unmounted prefix, or a copy that was left there; what is mounted
over it is compared in the inventory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

from envmgr.audit.controller import Controller
from envmgr.audit.look import Look, Said, folded, looked_at, say
from envmgr.audit.model import QUORUM, Check, Evidence, ProbeTexts, Rows, Values
from envmgr.audit.openings import let_in
from envmgr.audit.plan import AuditPlan
from envmgr.audit.table import Where, fields_of
from envmgr.probe.model import Facts, Fleet, number_in
from envmgr.probe.shell import GATE_SECONDS
from envmgr.system.locks import LOCKS_HINT, local_locks
from envmgr.system.shelltext import script_text

SLOW_MS = 1000  # a healthy prefix answers in a few ms
_TIMES = 4  # a node may take so many times as long as the median of all nodes
_ALL_SLOW_MS = 3000  # the limit where all nodes are slow, or too few are there to compare


def probe(plan: AuditPlan) -> ProbeTexts:
    of_prefix: ProbeTexts = {} if plan.alone else {"prefix": script_text(__file__, "prefix.sh")}
    return {"node": script_text(__file__, "node.sh"), **of_prefix}


@dataclass(frozen=True, slots=True)
class Writable:
    """The nodes of `mount.writable` in site.yaml."""

    nodes: frozenset[str]


def ask_controller(controller: Controller, evidence: Evidence) -> Writable | None:
    writable = evidence.site.mount.writable
    return None if writable is None else Writable(frozenset(controller.nodes(writable)))


def _without_prefix(evidence: Evidence) -> frozenset[str]:
    """Return the nodes whose shells find nothing of the prefix, as users cannot reach it, or hang on another mount."""
    stopped = evidence.fleet.sound.only(lambda facts: "mount.user_stopped" in facts)
    return frozenset([*stopped.nodes, *evidence.fleet.only(_hangs_shells).nodes])


def _hangs_shells(facts: Facts) -> bool:
    return "mount.hung" in facts and any(k.endswith("end") and v.startswith("no end") for k, v in facts.items())


def judge(evidence: Evidence) -> Rows:
    fleet = evidence.mounts.only(lambda facts: "probe" not in facts)
    yield from looked_at(_for_users, evidence.fleet.sound, evidence)
    yield from looked_at(_hung, fleet, evidence)
    if evidence.alone:
        return
    sources = fleet.sound.by(_source)
    right = evidence.site.mount.source or _right_source(sources, evidence)
    mounts = [*(group.facts for group in fleet.groups), evidence.controller]
    points = (facts["mount.point"] for facts in mounts if "mount.point" in facts and _source(facts) == right)
    there, servers = next(points, str(evidence.site.prefix)), _servers(fleet, right)
    yield from looked_at(partial(_mounted, right, there, servers), fleet, evidence, apart=servers)
    alike, asked = fleet.sound.only(lambda facts: _source(facts) == right), evidence.answer(Writable)
    yield from looked_at(partial(_options, asked), alike, evidence, apart=asked.nodes if asked else ())
    yield from _slow(evidence, alike)
    yield from _local_locks(evidence, fleet.sound, asked)


def _for_users(look: Look) -> Iterator[Said]:
    """Yield what users cannot enter on the way, and where they can write."""
    site = look.evidence.site
    if look.has("mount.user_stopped"):
        mode, owner, folder = fields_of(look.get("mount.user_stopped"), 3)
        at: Where = "here" if f"{folder}/".startswith(f"{site.prefix}/") else "node"
        yield say("closed", folder=folder, mode=mode, owner=owner, hint=let_in(site, folder, mode, at=at))
    paths = look.get("mount.user_writes")
    if paths.strip() and not look.evidence.alone:
        yield say("user_writes", paths=paths)


def _hung(look: Look) -> Iterator[Said]:
    """Yield other mounts that do not answer."""
    for line in look.lines("mount.hung"):
        point, kind, source = fields_of(line, 3)
        severity = "error" if _hangs_shells(look.facts) else "warning"
        yield say("hung", severity=severity, point=point, kind=kind, source=source, seconds=GATE_SECONDS)


def _servers(fleet: Fleet, right: str) -> frozenset[str]:
    """Return the file server, which has its own disk under the same path."""
    server = right.partition(":")[0].partition(".")[0] if ":" in right else ""
    return frozenset(node for node in fleet.nodes if node.partition(".")[0] == server)


def _mounted(right: str, there: str, servers: Collection[str], look: Look) -> Iterator[Said]:
    """Yield how the prefix is not mounted as it should be."""
    found, source = _fault(look.facts, right), _source(look.facts)
    own_disk = look.nodes[0] in servers and ":" not in source and look.get("gate") == "ok"
    unpublished = look.evidence.controller.get("gate", "").startswith("no link")  # reported once
    if not found or own_disk or (unpublished and found.startswith("cannot be used: no link")):
        return
    broken = found.startswith("does not answer") or (source and source == right)  # it is mounted
    expected = f"mounted from {right}" if right and source != right else f"an answer in {GATE_SECONDS} s"
    point = look.get("mount.point", there)
    over = point != "/" and f"{point}/".startswith(f"{there}/")
    row = "no_answer" if broken else "other_there" if over else "not_mounted"
    yield say(row, found=found, expected=expected, point=point, there=there)


def _options(asked: Writable | None, look: Look) -> Iterator[Said]:
    """Yield options by which programs do not start, or that `mount.writable` does not want."""
    if point := look.get("mount.point"):
        if "noexec" in look.get("mount.options").split(","):
            yield say("noexec", point=point)
        other = "ro" if "ro" in _all_options(look.facts) else "rw"
        if asked is not None and (wanted := "rw" if look.nodes[0] in asked.nodes else "ro") != other:
            yield say("mode", wanted=wanted, other=other, point=point)


def _local_locks(evidence: Evidence, fleet: Fleet, asked: Writable | None) -> Rows:
    """Yield local locks on this host, and on the nodes that may write there: other nodes take no locks."""
    if evidence.site.mount.locks == "local":
        return
    writable = asked.nodes if asked else frozenset()
    writers = [(group.facts, [node for node in group.nodes if node in writable]) for group in fleet.groups]
    hosts = [(evidence.controller, list[str]()), *((facts, nodes) for facts, nodes in writers if nodes)]
    local = ((local_locks(facts.get("mount.type", ""), _all_options(facts)), nodes) for facts, nodes in hosts)
    found = [(say("local_locks", severity=of[0], words=of[1], fix=LOCKS_HINT), nodes) for of, nodes in local if of]
    yield from folded(found, evidence)


def _slow(evidence: Evidence, fleet: Fleet) -> Rows:
    times = {node: number_in(fleet.own.get(node, {}), "mount.read_ms") or 0 for node in fleet.nodes}
    # The median of two nodes shows nothing about either of them.
    usual = median(times.values()) if len(times) > 2 else _ALL_SLOW_MS
    limit = min(max(SLOW_MS, _TIMES * usual), _ALL_SLOW_MS)
    if slow := {node: time for node, time in times.items() if time > limit}:
        yield evidence.say("slow", slow, took=f"{max(slow.values()) / 1000:.1f}", limit=f"{limit / 1000:.2g}")


def _fault(facts: Facts, right: str) -> str:
    gate = facts.get("gate", "not looked at")
    if "mount.type" not in facts and gate != "hung":
        return ""  # the node could not be looked at: the check `nodes` reports it
    if gate == "hung" or facts.get("prefix.end", "").startswith("no end"):
        return f"does not answer ({facts.get('mount.type', '?')} {facts.get('mount.source', '?')})"
    source = _source(facts)
    if right and source != right:
        if ":" in right and ":" not in source:
            kind, point = facts.get("mount.type", "?"), facts.get("mount.point", "?")
            return f"a local {kind} is mounted on {point}" if point != "/" else f"not mounted: a folder on / ({kind})"
        return f"mounted from {source}"
    return "" if gate == "ok" else f"cannot be used: {gate}"


def _source(facts: Facts) -> str:
    """Return what is mounted: the server's export, or for a local or bound file system also the folder of it."""
    source, root = facts.get("mount.source", ""), facts.get("mount.root", "/")
    return source if ":" in source or root == "/" else f"{source}[{root}]"


def _right_source(sources: Values, evidence: Evidence) -> str:
    """Return the source that the reference, most nodes or else this host has.

    The result is empty if that does not show who is right.
    """
    for source, nodes in sources.items():
        if evidence.reference in nodes or (
            len(nodes) >= QUORUM - 1 and 2 * len(nodes) > sum(map(len, sources.values()))
        ):
            return source
    own = _source(evidence.controller)
    return own if own in sources or (":" in own and not sources) else next(iter(sources)) if len(sources) == 1 else ""


def _all_options(facts: Facts) -> list[str]:
    return f"{facts.get('mount.options', '')},{facts.get('mount.super', '')}".split(",")


CHECK = Check(judge=judge, probe=probe, ask_controller=ask_controller, explained=_without_prefix)
