"""What can run where: every published entry on every node, by what the nodes told of driver, GPUs, glibc, CPU, libraries, of its
install and of the shells in which users load it.
"""

from __future__ import annotations

from dataclasses import dataclass

from envmgr.audit.missing import missing_libraries
from envmgr.audit.model import Evidence
from envmgr.audit.software import bad_installs, is_seen, start_fault
from envmgr.catalog.fitness import NodeFacts, cpu_level, unfit, without_gpu
from envmgr.catalog.recipe import Requires
from envmgr.nodes import fold
from envmgr.probe.model import Facts, ShellContext
from envmgr.probe.shell import NO_USER, context_key

BY = "fitness"  # the check that asks for what the matrix is made of


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One entry on nodes (folded) that are alike for it.

    Where it does not fit, `reasons` say why; where it does, they say what it lacks there: `without GPU`. `fit` is None where
    nothing speaks against it and `reasons` say what was not looked at.
    """

    entry: str
    nodes: str
    fit: bool | None
    reasons: tuple[str, ...] = ()


def node_facts(facts: Facts) -> NodeFacts | None:
    """What a node's answer says; None when it was not asked, or did not come so far."""
    if "fitness.arch" not in facts:
        return None
    pairs = (
        line.rpartition(",") if "," in line else (line, "", "") for line in facts.get("fitness.gpus", "").splitlines()
    )
    devices = facts.get("fitness.devices", "0")
    os_id, _, os_version = facts.get("fitness.os", "").partition(" ")
    arch = facts["fitness.arch"]
    return NodeFacts(
        driver=facts.get("fitness.driver", ""),
        gpus=tuple(sorted((name.strip(), _capability(capability)) for name, _, capability in pairs)),
        devices=int(devices) if devices.isdecimal() else 0,
        glibc=facts.get("fitness.glibc", ""),
        arch=arch,
        cpu_level=cpu_level(arch, facts.get("fitness.flags", "").split()),
        os_id=os_id,
        os_version=os_version,
    )


def _capability(text: str) -> str:
    return text.strip() if text.strip().replace(".", "").isdecimal() else ""


@dataclass(frozen=True, slots=True)
class _Told:
    """What some nodes said: `facts` read from it are None where it holds none."""

    raw: Facts
    facts: NodeFacts | None
    nodes: tuple[str, ...]


def _told(evidence: Evidence) -> list[_Told]:
    return [_Told(group.facts, node_facts(group.facts), group.nodes) for group in evidence.fleet.groups]


def observed(evidence: Evidence) -> dict[NodeFacts, tuple[str, ...]]:
    """facts -> the nodes that have them, for `save_node_facts`."""
    found: dict[NodeFacts, tuple[str, ...]] = {}
    for told in _told(evidence):
        if told.facts is not None:
            found[told.facts] = (*found.get(told.facts, ()), *told.nodes)
    return found


_Outcome = tuple[bool | None, tuple[str, ...]]


def matrix(evidence: Evidence) -> tuple[MatrixRow, ...]:
    """Every published entry on every node that was asked; nodes with the same outcome together, the most first."""
    told = _told(evidence)
    bare = frozenset(evidence.mounts.nodes).difference(evidence.mounts.sound.nodes)
    missing = [reply.node for reply in evidence.fleet.missing]
    shells = _without_modules(evidence)
    places = {install.entry: number for number, install in enumerate(evidence.plan.installs) if install.file}
    rows = []
    for entry, requires in required(evidence):
        found: dict[_Outcome, list[str]] = {}
        for each in told:
            outcome = _outcome(entry, requires, each, places.get(entry))
            for node in each.nodes:
                found.setdefault(_NO_PREFIX if node in bare else _in_shells(outcome, shells.get(node)), []).append(node)
        for node in missing:  # a node without the prefix gets no job
            found.setdefault(_NO_PREFIX if node in bare else _UNKNOWN, []).append(node)
        ordered = sorted(found.items(), key=lambda item: (-len(item[1]), not item[0][0], item[0][1]))
        rows += [MatrixRow(entry, fold(nodes), fit, reasons) for (fit, reasons), nodes in ordered]
    return tuple(rows)


_UNKNOWN: _Outcome = (False, ("no answer",))
_NO_PREFIX: _Outcome = (False, ("the prefix is not there",))


def required(evidence: Evidence) -> list[tuple[str, Requires]]:
    """Every published entry, and what it requires of a node."""
    published = evidence.published
    return [(entry, published.specs[entry].requires) for entry in sorted(published.specs)] if published else []


def _outcome(entry: str, requires: Requires, told: _Told, place: int | None) -> _Outcome:
    if told.facts is None:
        return _UNKNOWN
    reasons = unfit(requires, told.facts)
    if libraries := missing_libraries(entry, told.raw):
        reasons = (*reasons, f"no {', '.join(sorted(libraries))}")
    if bad := bad_installs(told.raw).get(entry):
        reasons = (*reasons, bad)
    elif fault := told.raw.get(f"software.status.{entry}"):
        reasons = (*reasons, fault) if (fault := start_fault(fault)) and not fault.startswith("no end") else reasons
    if reasons:
        return False, reasons
    if place is None or not is_seen(place, told.raw):
        return None, (f"not looked at: {'its install' if place is not None else 'installs'}",)
    return True, (("without GPU",) if without_gpu(requires, told.facts) else ())


def _in_shells(outcome: _Outcome, lack: str | None) -> _Outcome:
    return (False, (lack,)) if lack and outcome[0] is not False else outcome


def _without_modules(evidence: Evidence) -> dict[str, str]:
    """node -> which of its user's shells have no modules of ours; where `module` is missing no entry runs, whatever the node has."""
    found: dict[str, dict[str, list[str]]] = {}
    for context, account, fleet in evidence.contexts():
        if account != "user":
            continue
        key = context_key(context, account)
        for group in fleet.groups:
            if lack := _lack(group.facts, context, key, str(evidence.site.prefix)):
                for node in group.nodes:
                    found.setdefault(node, {}).setdefault(lack, []).append(context.name)
    return {
        node: "; ".join(f"{lack} in {', '.join(names)}" for lack, names in of_node.items())
        for node, of_node in found.items()
    }


def _lack(facts: Facts, context: ShellContext, key: str, prefix: str) -> str:
    end = facts.get(f"{key}end", "")
    if end == "absent" or not any(fact.startswith(key) for fact in facts):
        return ""  # no such shell there; or not asked
    if end:
        return f"no shell ({end})" if end.startswith(NO_USER) else "a shell that cannot be probed"
    if context.shell != "wrap" and facts.get(f"{key}module", "yes") != "yes":
        return "no `module`"
    if f"{prefix}/" not in facts.get(f"{key}modulepath", f"{prefix}/"):
        return "no published modules"
    return ""
