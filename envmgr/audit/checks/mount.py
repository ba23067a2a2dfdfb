"""The prefix is usable on every node: from the right server, answering in time, writable only where it should be.

Locks must be shared by all hosts that write there.

Every probe reads how a node has the prefix from /proc/self/mountinfo, which no mount can hang. Then a separate process
touches the prefix, and is left behind if it does not come back (autofs mounts at that moment). All other questions go
only to nodes that answered, also the one about the ordinary user's access to the prefix. The right server and options
are those of `mount:` in site.yaml, or else those of most like nodes.

Other network mounts of a node, and mounts of programs (sshfs), must answer, too. A shell that touches a mount without
an answer never ends, and a start-up file or MODULEPATH may name it. What shells lack on such a node is not reported
separately, and no job is sent there. The check says what is mounted over the prefix, or over a part of it, and which
`umount` shows the right mount again. A local folder where the other nodes have a network mount is an unmounted prefix,
or a copy that was left there.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from statistics import median

from envmgr.audit.compare.between_nodes import merged
from envmgr.audit.controller import Controller
from envmgr.audit.fit.install_facts import umounts
from envmgr.audit.model import QUORUM, Check, Evidence, ProbeTexts, Rows, Values
from envmgr.audit.openings import open_steps, without_acl_steps
from envmgr.audit.plan import AuditPlan
from envmgr.audit.table import Steps, Where, fields_of
from envmgr.catalog.site import Site
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts, Fleet, Group, number_in
from envmgr.probe.shell import GATE_SECONDS
from envmgr.report import Severity
from envmgr.system.locks import LOCKS_HINT, local_locks
from envmgr.system.modes import as_user, ask_about_way, closing
from envmgr.system.shelltext import quote, script_text

SLOW_MS = 1000  # a healthy prefix answers in a few ms
_TIMES = 4  # a node may take so many times as long as the median of all nodes
_ALL_SLOW_MS = 3000  # the limit where all nodes are slow, or too few are there to compare


_WHICH = "which is right, `mount: {source: …}` in site.yaml or fstab of the nodes?"


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
    lines = facts.get("mount.hung", "").splitlines()
    named = any(len(line.split(" ")) > 3 and line.split(" ")[3] for line in lines)
    return bool(lines) and (named or any(k.endswith("end") and v.startswith("no end") for k, v in facts.items()))


def judge(evidence: Evidence) -> Rows:
    prefix = str(evidence.site.prefix)
    fleet = evidence.mounts.only(lambda facts: "probe" not in facts)
    for said, nodes in evidence.fleet.sound.by_value("mount.user_stopped").items():
        before, _, owner = said.rpartition(" ")
        folder, _, mode = before.rpartition(" ")
        at: Where = "here" if f"{folder}/".startswith(f"{prefix}/") else "node"
        hint = open_steps(evidence.site, [folder], whom="users", at=at)
        row = "denied" if re.fullmatch(r"[0-7]*[1357]\+", mode) else "closed"
        if row == "denied":
            having = next(group.facts for group in evidence.fleet.groups if group.nodes[0] in nodes)
            hint = without_acl_steps(folder, having, evidence.site)
        yield evidence.say(row, nodes, folder=folder, mode=mode, owner=owner, hint=hint)
    yield from _hung(fleet, evidence)
    if evidence.alone:
        return
    sources = fleet.sound.by(_source)
    right = evidence.site.mount.source or _right_source(sources, evidence)
    if not right:
        yield evidence.compared("source", sources)
    known = (*(group.facts for group in fleet.groups), evidence.controller)
    there = next(
        (facts["mount.point"] for facts in known if "mount.point" in facts and _source(facts) == right), prefix
    )
    for group in fleet.groups:
        nodes = _not_the_server(group, right)
        if nodes and (found := _fault(group.facts, right)):
            if found.startswith("cannot be used: no link") and evidence.controller.get("gate", "").startswith(
                "no link"
            ):
                continue  # nothing is published: reported once
            expected = f"mounted from {right}" if right else "an answer"
            point, source = group.facts.get("mount.point", there), _source(group.facts)
            if found.startswith("does not answer"):
                expected = f"an answer in {GATE_SECONDS} s"
                yield evidence.say("no_answer", nodes, found=found, expected=expected, point=point)
            elif covers := _covers(group.facts, right):
                found = "; ".join(f"{what} is mounted over it, on {at}" for at, what in covers)
                away = " && ".join(f"umount {quote(at)}" for at, _ in covers)
                yield evidence.say("covered", nodes, found=found, right=right, umounts=away)
            elif source and source == right:  # mounted, and broken
                yield evidence.say("no_answer", nodes, found=found, expected=expected, point=point)
            elif point != "/" and f"{point}/".startswith(f"{there}/") and source != right:
                ask = "" if right in sources else _WHICH
                yield evidence.say(
                    "other_there", nodes, hint=ask, found=found, expected=expected, point=point, there=there
                )
            else:
                yield evidence.say("not_mounted", nodes, found=found, expected=expected, there=there)
    alike = fleet.sound.only(lambda facts: _source(facts) == right)
    modes = () if evidence.site.mount.writable is None else ("ro", "rw")  # `mount.writable` decides on these
    for key in ("mount.options", "mount.super"):
        lists = merged(alike.by_value(key, default=""), lambda options, _: _without(options, modes))
        yield evidence.compared("options", lists, key=key, there=there)
    yield from _usable(alike, evidence)
    yield from _writable(evidence, alike)
    yield from _slow(evidence, alike)
    yield from _local_locks(evidence, fleet)


def _local_locks(evidence: Evidence, fleet: Fleet) -> Rows:
    """Yield local locks on this host, and on the nodes that may write there: other nodes take no locks."""
    if evidence.site.mount.locks == "local":
        return
    asked = evidence.answer(Writable)
    writable = asked.nodes if asked else frozenset()
    found: dict[tuple[Severity, str], list[str]] = {}
    here = [Group(evidence.controller, ("",))] if "mount.type" in evidence.controller else []
    for group in (*here, *fleet.sound.groups):
        nodes = [node for node in group.nodes if node in writable or not node]
        if nodes and (local := local_locks(group.facts.get("mount.type", ""), _options(group.facts))):
            found.setdefault(local, []).extend(node for node in nodes if node)
    for (severity, words), nodes in found.items():
        yield evidence.say("local_locks", nodes, severity=severity, words=words, fix=LOCKS_HINT)


def _hung(fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield other mounts that do not answer."""
    found: dict[tuple[str, bool], list[str]] = {}
    for group in fleet.groups:
        for line in group.facts.get("mount.hung", "").splitlines():
            found.setdefault((line, _hangs_shells(group.facts)), []).extend(group.nodes)
    for (line, shells), nodes in found.items():
        point, kind, source, file = fields_of(line, 4)
        row = "hangs_shells" if shells else "hung"
        named = f", and {file} names it" if file else ""
        yield evidence.say(row, nodes, point=point, kind=kind, source=source, named=named, seconds=GATE_SECONDS)


def _usable(fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield nodes on which programs of the prefix cannot start, or something else is mounted over a part of it."""
    noexec = fleet.only(lambda facts: "noexec" in facts.get("mount.options", "").split(","))
    for point, nodes in noexec.by_value("mount.point").items():
        yield evidence.say("noexec", nodes, point=point)
    for line, nodes in fleet.by_line("mount.below").items():
        point, _, what = line.partition(" ")
        if others := [node for node in fleet.nodes if node not in nodes]:
            yield evidence.say(
                "mounted_over", nodes, point=point, what=what, umounts=umounts(line), others=fold(others)
            )


def _slow(evidence: Evidence, fleet: Fleet) -> Rows:
    for key, what in (("gate_ms", "answers"), ("mount.read_ms", "the generation's record and cache are read")):
        times = {node: number_in(fleet.own.get(node, {}), key) or 0 for node in fleet.nodes}
        # The median of two nodes shows nothing about either of them.
        usual = median(times.values()) if len(times) > 2 else _ALL_SLOW_MS
        limit = min(max(SLOW_MS, _TIMES * usual), _ALL_SLOW_MS)
        slow = [node for node, time in times.items() if time > limit]
        if slow:
            worst = max(times[node] for node in slow)
            yield evidence.say("slow", slow, what=what, took=f"{worst / 1000:.1f}", limit=f"{limit / 1000:.2g}")


def _without(options: str, modes: Collection[str]) -> str:
    return ",".join(option for option in options.split(",") if option not in modes)


def _not_the_server(group: Group, right: str) -> tuple[str, ...]:
    """Return the group's nodes without the file server, which has its own disk under the same path."""
    server = right.partition(":")[0].partition(".")[0] if ":" in right else ""
    own_disk = server and ":" not in _source(group.facts) and group.facts.get("gate") == "ok"
    return tuple(n for n in group.nodes if not (own_disk and n.partition(".")[0] == server))


def _fault(facts: Facts, right: str) -> str:
    gate = facts.get("gate", "not looked at")
    if "mount.type" not in facts and gate == "ok":
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


def _covers(facts: Facts, right: str) -> list[tuple[str, str]]:
    """Return what lies over the right mount, the uppermost first: mount points, and what is mounted there; nothing if the
    right mount is on top, or is not there.
    """
    above = [(facts.get("mount.point", ""), facts.get("mount.type", ""), _source(facts))]
    for line in facts.get("mount.under", "").splitlines():
        if above[-1][2] == right:
            break
        point, kind, source = fields_of(line, 3)
        above.append((point, kind, source))
    return [(point, f"{kind} {source}") for point, kind, source in above[:-1]] if above[-1][2] == right else []


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


def _writable(evidence: Evidence, fleet: Fleet) -> Rows:
    if (asked := evidence.answer(Writable)) is not None:
        writable = asked.nodes
        modes = {node: "ro" if "ro" in _options(g.facts) else "rw" for g in fleet.groups for node in g.nodes}
        for wanted, other in (("rw", "ro"), ("ro", "rw")):
            right = {node for node in modes if (node in writable) == (wanted == "rw")}
            for point, nodes in fleet.by_value("mount.point").items():
                if wrong := [node for node in nodes if node in right and modes[node] == other]:
                    yield evidence.say("mode", wrong, wanted=wanted, other=other, point=point)
    for paths, nodes in evidence.fleet.sound.by_value("mount.user_writes").items():
        if paths.strip():
            yield evidence.say("user_writes", nodes, paths=paths, hint=_closed(paths.split()[0], evidence.site))


def _closed(path: str, site: Site) -> Steps:
    """Return the steps that keeps others from writing `path`.

    They may have put a link there, but not at the prefix itself.
    """
    if path == str(site.prefix) or site.build_user is None:
        if path.endswith("/current/modules"):
            return Steps(look=f"on the server: {ask_about_way(path)}")
        user = "root"
    else:
        user = site.build_user
    return Steps(run=as_user(user, closing("go-w", path)), at="server", look="and give it to the build user")


def _options(facts: Facts) -> list[str]:
    return f"{facts.get('mount.options', '')},{facts.get('mount.super', '')}".split(",")


CHECK = Check(judge=judge, probe=probe, ask_controller=ask_controller, explained=_without_prefix)
