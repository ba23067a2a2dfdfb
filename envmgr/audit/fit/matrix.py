"""The matrix of published entries and nodes: which entry can run on which node.

It is based on what nodes reported about driver, GPUs, glibc, CPU, libraries, the install, and the shells in which users
load it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from envmgr.audit.fit.install_facts import bad_installs, is_seen, missing_libraries, start_fault
from envmgr.audit.model import QUORUM, AskedShell, Evidence
from envmgr.catalog.fitness import NodeFacts, NodeNeeds, Verdict, cpu_level, judge_gpu, unfit
from envmgr.catalog.gpus import Gpu, is_capability
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts

BY = "fitness"  # the check that asks for the facts of the matrix


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One entry on nodes (folded) that are alike for it.

    If it does not fit, `reasons` say why; if it does, they say what it lacks there: `without GPU`. `fit` is None if no
    fault is known and `reasons` say what was not looked at.
    """

    entry: str
    nodes: str
    fit: bool | None
    reasons: tuple[str, ...] = ()


def node_facts(facts: Facts) -> NodeFacts | None:
    """Return the facts in a node's answer; None if it was not asked, or its answer ends before them."""
    if "fitness.arch" not in facts:
        return None
    os_id, _, os_version = facts.get("fitness.os", "").partition(" ")
    arch = facts["fitness.arch"]
    return NodeFacts(
        driver=_told(facts.get("fitness.driver", "")) or "",
        gpus=read_gpus(facts.get("fitness.gpus", "")),
        library=_told(facts.get("fitness.library", "?")),
        cuda=_told(facts.get("fitness.cuda", "")) or "",
        glibc=facts.get("fitness.glibc", ""),
        arch=arch,
        cpu_level=cpu_level(arch, facts.get("fitness.flags", "").split()),
        os_id=os_id,
        os_version=os_version,
    )


def _told(text: str) -> str | None:
    """Return the text; empty for `-` (there is none), None for `?` (not reported)."""
    return {"-": "", "?": None}.get(text, text)


def _arch(vendor: str, text: str) -> str:
    """Return the architecture; empty if an NVIDIA one is no compute capability, which means that it was not
    reported.
    """
    known = _told(text) or ""
    return known if vendor != "nvidia" or is_capability(known) else ""


def read_gpus(text: str) -> tuple[Gpu, ...]:
    """Parse the output of nodesetup/gpus.sh: a line `VENDOR ARCH DRIVER NAME` for each GPU."""
    rows = [row for line in text.splitlines() if len(row := line.split(" ", 3)) == 4]
    return _sorted(
        Gpu(vendor=vendor, arch=_arch(vendor, arch), driver=_told(driver), name=name)
        for vendor, arch, driver, name in rows
    )


def _sorted(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    return tuple(sorted(gpus, key=lambda gpu: (gpu.vendor, gpu.name, gpu.arch, gpu.driver or "")))


@dataclass(frozen=True, slots=True)
class _GpuAnswer:
    """The answer of some nodes. `facts` is what was read from it, None if it holds none."""

    raw: Facts
    facts: NodeFacts | None
    nodes: tuple[str, ...]


def _answers(evidence: Evidence) -> list[_GpuAnswer]:
    """Return the answers of the first way. GPUs that were hidden from it are taken from another way, such as a job."""
    shown = _shown_elsewhere(evidence)
    found = []
    for group in evidence.fleet.groups:
        facts = node_facts(group.facts)
        seen: dict[NodeFacts | None, list[str]] = {}
        for node in group.nodes:
            gpus, cuda = shown.get(node, ((), ""))
            better = facts is not None and _known(gpus) > _known(facts.gpus)
            update = {"gpus": with_shown(facts.gpus, gpus), "cuda": cuda} if facts is not None and better else {}
            seen.setdefault(facts.model_copy(update=update) if facts is not None else None, []).append(node)
        found += [_GpuAnswer(group.facts, each, tuple(nodes)) for each, nodes in seen.items()]
    return found


def _shown_elsewhere(evidence: Evidence) -> dict[str, tuple[tuple[Gpu, ...], str]]:
    """Return node -> GPUs and CUDA version from the one of the other ways that was shown the most GPUs."""
    fleets = [*list(evidence.ways.values())[1:], *([evidence.gpu_jobs] if evidence.gpu_jobs is not None else [])]
    found: dict[str, tuple[tuple[Gpu, ...], str]] = {}
    for fleet in fleets:
        for group in fleet.groups:
            gpus = read_gpus(group.facts.get("fitness.gpus", ""))
            for node in group.nodes:
                if node not in found or _known(gpus) > _known(found[node][0]):
                    found[node] = gpus, _told(group.facts.get("fitness.cuda", "")) or ""
    return found


def with_shown(listed: tuple[Gpu, ...], shown: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Return the GPUs that the driver lists, each with the capability of a shown GPU of the same name.

    If this gives fewer known capabilities than `shown` has, return `shown`.
    """
    archs = {gpu.name: gpu.arch for gpu in shown if gpu.arch}
    filled = [gpu.model_copy(update={"arch": archs.get(gpu.name, "")}) if _hidden(gpu) else gpu for gpu in listed]
    return _sorted(filled) if _known(filled) >= _known(shown) else shown


def _known(gpus: Iterable[Gpu]) -> int:
    return sum(bool(gpu.arch) or gpu.driver == "" for gpu in gpus)


def _hidden(gpu: Gpu) -> bool:
    return gpu.vendor == "nvidia" and not gpu.arch and gpu.driver != ""


def hiding(evidence: Evidence) -> tuple[str, ...]:
    """Return the nodes whose driver has GPUs, none of which was shown to any of the questions."""
    found = set[str]()
    for told in _answers(evidence):
        nvidia = [gpu for gpu in (told.facts.gpus if told.facts is not None else ()) if gpu.vendor == "nvidia"]
        if is_hidden(told.raw) and nvidia and all(map(_hidden, nvidia)):
            found.update(told.nodes)
    return tuple(node for node in evidence.nodes if node in found)


def is_hidden(facts: Facts) -> bool:
    """Return whether no GPU was shown, and this is not a fault: `nvidia-smi` reaches the driver, and lists no GPU."""
    return facts.get("fitness.smi", "").startswith("No devices")


def observed(evidence: Evidence) -> dict[NodeFacts, tuple[str, ...]]:
    """Return facts -> the nodes that have them, for `save_node_facts`."""
    found: dict[NodeFacts, tuple[str, ...]] = {}
    for told in _answers(evidence):
        if told.facts is not None:
            found[told.facts] = (*found.get(told.facts, ()), *told.nodes)
    return found


def groups_by_kind(evidence: Evidence) -> Mapping[str, tuple[str, ...]]:
    """Return the kinds of hardware, in words, that can be compared within themselves, if there are several: those with
    three nodes or more. Nodes of smaller kinds are added to the largest one. None where something is published.
    """
    kinds: dict[str, tuple[str, ...]] = {}
    for facts, nodes in observed(evidence).items() if evidence.alone else ():
        gpus = ", ".join(sorted({gpu.name for gpu in facts.gpus}))
        kind = f"nodes of {facts.cpu_level or facts.arch}{f' with {gpus}' if gpus else ''}"
        kinds[kind] = (*kinds.get(kind, ()), *nodes)
    large = {kind: nodes for kind, nodes in kinds.items() if len(nodes) >= QUORUM}
    if len(large) < 2:
        return {}
    most = max(large, key=lambda kind: len(large[kind]))
    return large | {most: (*large[most], *(n for kind, nodes in kinds.items() if kind not in large for n in nodes))}


_Outcome = tuple[bool | None, tuple[str, ...]]


def matrix(evidence: Evidence) -> tuple[MatrixRow, ...]:
    """Return every published entry on every asked node. Nodes with the same outcome are one row, the largest first."""
    lost = _GpuAnswer({}, None, tuple(reply.node for reply in evidence.fleet.missing))
    told = [*_answers(evidence), lost]
    bare = frozenset(evidence.mounts.nodes).difference(evidence.mounts.sound.nodes)
    shells = _without_modules(evidence) | dict.fromkeys(_without_jobs(evidence), "jobs there do not answer")
    places = {install.entry: number for number, install in enumerate(evidence.plan.installs) if install.file}
    rows = []
    for entry, needs in required(evidence):
        found: dict[_Outcome, list[str]] = {}
        for each in told:
            outcome = _outcome(entry, needs, each, places.get(entry))
            for node in each.nodes:  # a node without the prefix gets no job
                found.setdefault(_NO_PREFIX if node in bare else _in_shells(outcome, shells.get(node)), []).append(node)
        ordered = sorted(found.items(), key=lambda item: (-len(item[1]), not item[0][0], item[0][1]))
        rows += [MatrixRow(entry, fold(nodes), fit, reasons) for (fit, reasons), nodes in ordered]
    return tuple(rows)


_UNKNOWN: _Outcome = (False, ("no answer",))
_NO_PREFIX: _Outcome = (False, ("the prefix is not there",))


def required(evidence: Evidence) -> list[tuple[str, NodeNeeds]]:
    """Return every published entry, and its needs of a node."""
    published = evidence.published
    return [(entry, published.specs[entry].needs) for entry in sorted(published.specs)] if published else []


def _outcome(entry: str, needs: NodeNeeds, told: _GpuAnswer, place: int | None) -> _Outcome:
    if told.facts is None:
        return _UNKNOWN
    reasons = unfit(needs, told.facts)
    if libraries := missing_libraries(entry, told.raw):
        reasons = (*reasons, f"no {', '.join(sorted(libraries))}")
    loads = "it does not load" if f"loading.failed.{entry}" in told.raw else ""
    bad = bad_installs(told.raw).get(entry) or loads or start_fault(told.raw.get(f"software.status.{entry}", ""))
    if bad and not bad.startswith("no end"):
        reasons = (*reasons, bad)
    if reasons:
        return False, reasons
    if place is None or not is_seen(place, told.raw):
        return None, (f"not looked at: {'its install' if place is not None else 'installs'}",)
    judged = judge_gpu(needs, told.facts)
    if judged is None or judged.verdict == Verdict.FULL:
        return True, ()
    if judged.verdict == Verdict.UNKNOWN:
        return None, (f"not known: {judged.reason}",)
    return True, ("without GPU" if judged.verdict == Verdict.NO_GPU else f"{judged.verdict}: {judged.reason}",)


def _in_shells(outcome: _Outcome, lack: str | None) -> _Outcome:
    return (False, (lack,)) if lack and outcome[0] is not False else outcome


_NO_FAULT = ("busy: ", "asleep: ", "no job was", "not asked: ", "no partition of Slurm")  # beginnings of reasons


def _without_jobs(evidence: Evidence) -> frozenset[str]:
    """Return nodes that answered first but not in other jobs, unless the reason is other people's jobs or this host."""
    besides = [fleet for fleet in evidence.ways.values() if fleet is not evidence.fleet]
    return frozenset(
        reply.node for fleet in besides for reply in fleet.missing if not reply.reason.startswith(_NO_FAULT)
    )


def _without_modules(evidence: Evidence) -> dict[str, str]:
    """Return node -> the shells of its user that lack the published modules.

    Without `module` no entry runs, whatever the node has.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for shell in evidence.each_shell():
        if shell.account == "user":
            for lack, nodes in shell.fleet.by(partial(_lack, shell, f"{evidence.site.prefix}/")).items():
                for node in nodes:
                    found.setdefault(node, {}).setdefault(lack, []).append(shell.context.name)
    return {
        node: "; ".join(f"{lack} in {', '.join(names)}" for lack, names in of_node.items())
        for node, of_node in found.items()
    }


def _lack(shell: AskedShell, published: str, facts: Facts) -> str | None:
    end = facts.get(f"{shell.key}end", "")
    if end:
        return "a shell that cannot be probed" if end != "absent" else None
    if shell.context.shell != "wrap" and facts.get(f"{shell.key}module", "yes") != "yes":
        return "no `module`"
    return "no published modules" if published not in facts.get(f"{shell.key}modulepath", published) else None
