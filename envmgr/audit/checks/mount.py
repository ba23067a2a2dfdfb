"""The prefix is usable on every node: from the right server, answering in time, writable only where it should be.

Every probe reads how a node has the prefix from /proc/self/mountinfo, which no mount can hang. Then a separate process
touches the prefix, and is left behind if it does not come back (autofs mounts at that moment). All other questions go
only to nodes that answered, also the one about the ordinary user's access to the prefix. The right server is
that of `mount:` in site.yaml; how mounts of like nodes differ is compared in the inventory.

Other network mounts of a node, and mounts of programs (sshfs), must answer, too. A shell that touches a mount without
an answer never ends. What shells lack on such a node follows from it, and no job is sent there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from statistics import median

from envmgr.audit.controller import Controller
from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.openings import let_in
from envmgr.audit.plan import AuditPlan
from envmgr.audit.table import Where, fields_of
from envmgr.probe.model import Facts, Fleet, number_in
from envmgr.probe.shell import GATE_SECONDS
from envmgr.system.shelltext import script_text

SLOW_MS = 1000  # a healthy prefix answers in a few ms
_TIMES = 4  # a node may take so many times as long as the median of all nodes
_ALL_SLOW_MS = 3000  # the limit where all nodes are slow, or too few are there to compare


def probe(plan: AuditPlan) -> ProbeTexts:
    of_prefix: ProbeTexts = {} if plan.alone else {"prefix": script_text(__file__, "prefix.sh")}
    return {"node": script_text(__file__, "node.sh"), **of_prefix}


def ask_controller(controller: Controller, evidence: Evidence) -> frozenset[str] | None:
    """Return the nodes of `mount.writable` in site.yaml."""
    writable = evidence.site.mount.writable
    return None if writable is None else frozenset(controller.sets.resolve(writable))


def judge(evidence: Evidence) -> Rows:
    fleet = evidence.mounts.only(lambda facts: "probe" not in facts)
    yield from looked_at(_for_users, evidence.fleet.sound, evidence)
    yield from looked_at(_hung, fleet, evidence)
    if evidence.alone:
        return
    right = evidence.site.mount.source or ""
    server = right.partition(":")[0].partition(".")[0]
    servers = frozenset(node for node in fleet.nodes if node.partition(".")[0] == server)
    yield from looked_at(partial(_mounted, servers), fleet, evidence, apart=servers)
    asked: frozenset[str] | None = evidence.answer(frozenset)
    # The hint names no other place: a local folder in the place of the prefix lies on the node's root.
    served = fleet.sound.only(lambda facts: _source(facts) == right if right else ":" in _source(facts))
    yield from looked_at(partial(_options, asked), served, evidence, apart=asked or ())
    yield from _slow(evidence, fleet.sound)


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
    """Yield other mounts that do not answer; an error where a shell of the node did not end."""
    ends = [said for key, said in look.facts.items() if key.endswith("end")]
    severity = "error" if any(said.startswith("no end") for said in ends) else "warning"
    for line in look.lines("mount.hung"):
        point, kind, source = fields_of(line, 3)
        yield say("hung", severity=severity, point=point, kind=kind, source=source, seconds=GATE_SECONDS)


def _mounted(servers: Collection[str], look: Look) -> Iterator[Said]:
    """Yield that the prefix does not answer, is another mount than site.yaml says, or cannot be used.

    `servers` have it on their own disk, under the same path.
    """
    facts, gate, source = look.facts, look.get("gate", "not looked at"), _source(look.facts)
    right, point = look.evidence.site.mount.source, look.get("mount.point", str(look.evidence.site.prefix))
    unpublished = gate.startswith("no link") and look.evidence.controller.get("gate", "").startswith("no link")
    if gate == "hung" or look.get("prefix.end").startswith("no end"):
        kind = look.get("mount.type", "?")
        yield say("no_answer", kind=kind, source=look.get("mount.source", "?"), point=point, seconds=GATE_SECONDS)
    elif "mount.type" not in facts:
        return  # the node could not be looked at: the check `nodes` reports it
    elif right and source != right and look.nodes[0] not in servers:
        yield say("another", source=source, right=right)
    elif gate != "ok" and not unpublished:  # reported once
        yield say("unusable", gate=gate)


def _options(asked: frozenset[str] | None, look: Look) -> Iterator[Said]:
    """Yield options by which programs do not start, or that `mount.writable` does not want."""
    point, wanted = look.get("mount.point"), "rw" if asked and look.nodes[0] in asked else "ro"
    options = look.get("mount.options").split(",")
    if "noexec" in options:
        yield say("noexec", point=point, options=",".join("exec" if of == "noexec" else of for of in options))
    other = "ro" if "ro" in (*options, *look.get("mount.super").split(",")) else "rw"
    if asked is not None and wanted != other:
        yield say("mode", wanted=wanted, other=other, point=point)


def _slow(evidence: Evidence, fleet: Fleet) -> Rows:
    times = {node: number_in(fleet.own.get(node, {}), "mount.read_ms") or 0 for node in fleet.nodes}
    # The median of two nodes shows nothing about either of them.
    usual = median(times.values()) if len(times) > 2 else _ALL_SLOW_MS
    limit = min(max(SLOW_MS, _TIMES * usual), _ALL_SLOW_MS)
    if slow := {node: time for node, time in times.items() if time > limit}:
        yield evidence.say("slow", slow, took=f"{max(slow.values()) / 1000:.1f}", limit=f"{limit / 1000:.2g}")


def _source(facts: Facts) -> str:
    """Return what is mounted: the server's export, or for a local or bound file system also the folder of it."""
    source, root = facts.get("mount.source", ""), facts.get("mount.root", "/")
    return source if ":" in source or root == "/" else f"{source}[{root}]"


CHECK = Check(judge=judge, probe=probe, ask_controller=ask_controller)
