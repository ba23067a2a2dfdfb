"""Every node that was asked answers, and answers for itself.

A node that does not answer is a finding, never a gap in the table. It is unreachable (no connection, no job), or silent
(it was reached, and no whole answer came in time). A node that is busy with other users' jobs, or that Slurm has put to
sleep to save power, is a note. No job waits longer than `transport.queue_timeout`, and no job wakes a node.

The check also reports two nodes that are one host. A wrong address, a wrong line in /etc/hosts or an ssh alias makes an
audit look at one node twice and never at another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from operator import itemgetter

from envmgr.audit.controller import SlurmView
from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import Check, Evidence, Rows
from envmgr.audit.shell.shared_shell import refused_by
from envmgr.audit.table import hint_by
from envmgr.nodes.envelope import Reply
from envmgr.nodes.sets import fold
from envmgr.nodes.slurm import asleep, slurm_names
from envmgr.probe.model import Fleet, grouped
from envmgr.probe.shell import NO_USER, NO_USER_HINT, looked_key
from envmgr.report import Severity

_STAGES = {"node": "looking at the node", "prefix": "reading the prefix", "login": "asking Lmod in a login shell"}
_TRACED = ":exec :exit :return"  # of a login shell that ends before it submits
_NAMES = {"ssh": "ssh", "slurm": "Slurm (inherited environment)", "slurm-none": "Slurm (--export=NONE)"}


def judge(evidence: Evidence) -> Rows:
    yield from _missing(evidence)
    for way, fleet in evidence.ways.items():
        yield from _twice(way, fleet, evidence)
        yield from looked_at(partial(_ended, _NAMES.get(way, way)), fleet, evidence)


def _missing(evidence: Evidence) -> Rows:
    slurm = evidence.slurm
    names = slurm_names(slurm.states, evidence.nodes)
    for way, fleet in (*evidence.ways.items(), ("ssh", evidence.here)):
        logs = evidence.logs if way != "ssh" else {}
        for found, nodes in grouped((_why(reply, logs, slurm, names), reply.node) for reply in fleet.missing).items():
            jobs = fold(names.get(node, node) for node in nodes)
            hint = hint_by(evidence.table.words, f"{way}: {found}", nodes=jobs, node=nodes[0])
            told_elsewhere = "no job was sent: " in found or _by_variables(way, found, evidence)
            severity: Severity = "note" if told_elsewhere or found.startswith(_NO_FAULT) else "error"
            yield evidence.say(
                "missing",
                nodes,
                severity=severity,
                way=_NAMES.get(way, way),
                found=found,
                hint=hint,
                traced=_TRACED if "the login shell ended" in found else "",
            )


def _by_variables(way: str, found: str, evidence: Evidence) -> bool:
    """Return whether the check `submitting` reports the variable of the submitting shell by which no job was taken."""
    told = (of.facts for of in evidence.here.groups if looked_key("submitting", "login") in of.facts)
    return way != "ssh" and any(any(refused_by(found, facts)) for facts in told)


_NO_FAULT = ("busy: ", "asleep: ")  # reasons that begin so are no fault of the node


def _why(reply: Reply, logs: Mapping[str, str], slurm: SlurmView, names: Mapping[str, str]) -> str:
    """Return the status and its reason. Nothing reaches a node that Slurm has put to sleep, whatever ssh reports."""
    state = slurm.states[names[reply.node]][0] if reply.node in names else ""
    if reply.status == "unreachable" and (sleeps := asleep(state)):
        return sleeps
    if reply.reason.startswith(_NO_FAULT):  # Slurm gives waiting jobs different reasons
        return re.sub(r" \((Resources|Priority|ReqNodeNotAvail, UnavailableNodes:.*?)\)", "", reply.reason)
    log = logs.get(reply.node, "") if reply.status == "silent" else ""
    found = f"{reply.status}: {reply.reason}" + (f"; slurmd's log: {log}" if log else "")
    # What differs on every node.
    return re.sub(r"(\bfor )?\bStepId=\S+ ?|JOB \d+ ON \S+ |[0-9-]{10}T[0-9:]+ ?", "", found)


def _ended(way: str, look: Look) -> Iterator[Said]:
    """Yield a probe that could not start, and a stage that did not end, if no other check reports how."""
    if value := look.get("probe"):
        yield say("no_probe", way=way, value=value)
    ends = {value for key, value in look.facts.items() if key.startswith("ctx.") and key.endswith(".user.end")}
    for stage, what in _STAGES.items():
        end = look.get(f"{stage}.end")
        is_slow, lacks_user = end.startswith("no end"), end.startswith(NO_USER)
        hangs = is_slow and (stage == "prefix" or (stage == "login" and look.has("mount.hung")))  # the check `mount`
        if end and not hangs and not (stage == "login" and end in ends):  # the check `contexts`
            hint = NO_USER_HINT if lacks_user else ""
            row = "slow" if is_slow else "cut_short"
            yield say(row, way=way, what=what, end=end, first=itemgetter(0), hint=hint)


def _twice(way: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield nodes that are one host: those that do not have its name."""
    answered = fleet.only(lambda facts: "probe" not in facts).nodes
    hosts = grouped((_short(fleet.own.get(node, {}).get("host", node)), node) for node in answered)
    for host, nodes in hosts.items():
        for node in nodes if len(nodes) > 1 else ():
            if _short(node) != host and fleet.own.get(node, {}).get("slurm_node") != node:
                others = fold(each for each in nodes if each != node)
                yield evidence.say("twice", [node], way=_NAMES.get(way, way), host=host, others=others)


def _short(name: str) -> str:
    """Return a host's name without its domain; an address stays whole."""
    return name if re.fullmatch(r"[0-9.]+|.*:.*", name) else name.partition(".")[0].lower()


CHECK = Check(judge=judge, wants=frozenset({"slurm"}))
