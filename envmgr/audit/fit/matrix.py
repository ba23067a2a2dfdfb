"""The matrix of published entries and nodes: which entry can run on which node, and which nodes have it on their own disk.

It is based on what nodes reported about driver, GPUs, glibc, CPU, libraries, the install, and the shells in which users
load it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from envmgr.audit.findings import Loose
from envmgr.audit.model import QUORUM, Evidence
from envmgr.audit.table import fields_of, short
from envmgr.catalog.fitness import NodeFacts, NodeNeeds, Verdict, cpu_level, judge_gpu, unfit
from envmgr.catalog.gpus import Gpu, is_capability
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts, grouped, number_in

BY = "fitness"  # the check that asks for the facts of the matrix
STAGED_BY = "images"  # and of `staged_nodes`


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
    return NodeFacts(
        driver=_told(facts.get("fitness.driver", "")) or "",
        gpus=read_gpus(facts),
        library=_told(facts.get("fitness.library", "?")),
        cuda=_told(facts.get("fitness.cuda", "")) or "",
        glibc=facts.get("fitness.glibc", ""),
        arch=facts["fitness.arch"],
        cpu_level=cpu_level(facts["fitness.arch"], facts.get("fitness.flags", "").split()),
        os_id=os_id,
        os_version=os_version,
    )


def _told(text: str) -> str | None:
    """Return the text; empty for `-` (there is none), None for `?` (not reported)."""
    return {"-": "", "?": None}.get(text, text)


def read_gpus(facts: Facts) -> tuple[Gpu, ...]:
    """Return the GPUs by the output of nodesetup/gpus.sh: a line `VENDOR ARCH DRIVER NAME` for each.

    An NVIDIA architecture that is no compute capability was not reported.
    """
    rows = (line.split(" ", 3) for line in facts.get("fitness.gpus", "").splitlines() if line.count(" ") > 2)
    told = ((of, arch if of != "nvidia" or is_capability(arch) else "", *rest) for of, arch, *rest in rows)
    return _sorted(Gpu(vendor=of, arch=_told(arch) or "", driver=_told(by), name=name) for of, arch, by, name in told)


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
        seen = grouped((facts and _better(facts, *shown.get(node, ((), ""))), node) for node in group.nodes)
        found += [_GpuAnswer(group.facts, each, tuple(nodes)) for each, nodes in seen.items()]
    return found


def _better(facts: NodeFacts, gpus: tuple[Gpu, ...], cuda: str) -> NodeFacts:
    if _known(gpus) <= _known(facts.gpus):
        return facts
    return facts.model_copy(update={"gpus": with_shown(facts.gpus, gpus), "cuda": cuda})


def _shown_elsewhere(evidence: Evidence) -> dict[str, tuple[tuple[Gpu, ...], str]]:
    """Return node -> GPUs and CUDA version from the one of the other ways that was shown the most GPUs."""
    found: dict[str, tuple[tuple[Gpu, ...], str]] = {}
    for fleet in (*[*evidence.ways.values()][1:], evidence.gpu_jobs):
        for group in fleet.groups:
            gpus, cuda = read_gpus(group.facts), _told(group.facts.get("fitness.cuda", "")) or ""
            better = (node for node in group.nodes if _known(gpus) > _known(found.get(node, ((), ""))[0]))
            found |= dict.fromkeys(better, (gpus, cuda))
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
    found = grouped((told.facts, node) for told in _answers(evidence) if told.facts is not None for node in told.nodes)
    return {facts: tuple(nodes) for facts, nodes in found.items()}


def groups_by_kind(evidence: Evidence) -> Mapping[str, tuple[str, ...]]:
    """Return the kinds of hardware, in words, that can be compared within themselves, if there are several: those with
    three nodes or more. Nodes of smaller kinds are added to the largest one. None where something is published.
    """
    seen = observed(evidence) if evidence.alone else {}
    kinds = grouped((_kind(facts), node) for facts, nodes in seen.items() for node in nodes)
    large = {kind: tuple(nodes) for kind, nodes in kinds.items() if len(nodes) >= QUORUM}
    if len(large) < 2:
        return {}
    most = max(large, key=lambda kind: len(large[kind]))
    return large | {most: (*large[most], *(n for kind, nodes in kinds.items() if kind not in large for n in nodes))}


def _kind(facts: NodeFacts) -> str:
    gpus = ", ".join(sorted({gpu.name for gpu in facts.gpus}))
    return f"nodes of {facts.cpu_level or facts.arch}{f' with {gpus}' if gpus else ''}"


_UNKNOWN, _NO_PREFIX = "no answer", "the prefix is not there"
_STOP = ("contexts", "nodes")  # checks whose errors say that nothing runs there


def matrix(evidence: Evidence, findings: Iterable[Loose]) -> tuple[MatrixRow, ...]:
    """Return every published entry on every asked node. Nodes with the same outcome are one row, the largest first.

    `findings` are those of all checks: an error about an entry, or about the user's shells or jobs, is a reason.
    """
    lost = _GpuAnswer({}, None, tuple(reply.node for reply in evidence.fleet.missing))
    told = [*_answers(evidence), lost]
    of_users = [(one.finding, node) for one in findings for node in one.nodes if one.account != "root"]
    errors = [(of, n) for of, n in of_users if of.check == "libraries" or (of.severity == "error" and of.check != BY)]
    faults = grouped(((of.where, node), of.found) for of, node in errors)
    stopped = {node: f"{of.where}: {short(of.found, 80)}" for of, node in reversed(errors) if of.check in _STOP}
    stopped |= dict.fromkeys({*evidence.mounts.nodes} - {*evidence.mounts.sound.nodes}, _NO_PREFIX)
    places = {install.entry: number for number, install in enumerate(evidence.plan.installs) if install.file}
    rows = []
    for entry, needs in required(evidence):
        found: dict[tuple[bool | None, tuple[str, ...]], list[str]] = {}
        for each in told:
            fit, reasons = _outcome(needs, each, places.get(entry))
            for node in each.nodes:
                no = [*(reasons if fit is False else ()), *dict.fromkeys(faults.get((entry, node), ()))]
                if stopped.get(node) == _NO_PREFIX or (not no and node in stopped):
                    no = [stopped[node]]
                found.setdefault((False, tuple(no)) if no else (fit, reasons), []).append(node)
        ordered = sorted(found.items(), key=lambda item: (-len(item[1]), not item[0][0], item[0][1]))
        rows += [MatrixRow(entry, fold(nodes), fit, reasons) for (fit, reasons), nodes in ordered]
    return tuple(rows)


def required(evidence: Evidence) -> list[tuple[str, NodeNeeds]]:
    """Return every published entry, and its needs of a node."""
    published = evidence.published
    return [(entry, published.specs[entry].needs) for entry in sorted(published.specs)] if published else []


def _outcome(needs: NodeNeeds, told: _GpuAnswer, place: int | None) -> tuple[bool | None, tuple[str, ...]]:
    """Return whether an entry with these needs runs, by the node's hardware and system, and why not or how."""
    if told.facts is None:
        return False, (_UNKNOWN,)
    if reasons := unfit(needs, told.facts):
        return False, reasons
    if place is None or place >= (number_in(told.raw, "software.seen") or 0):
        return None, (f"not looked at: {'its install' if place is not None else 'installs'}",)
    judged = judge_gpu(needs, told.facts)
    if judged is None or judged.verdict == Verdict.FULL:
        return True, ()
    if judged.verdict == Verdict.UNKNOWN:
        return None, (f"not known: {judged.reason}",)
    return True, ("without GPU" if judged.verdict == Verdict.NO_GPU else f"{judged.verdict}: {judged.reason}",)


def staged_nodes(evidence: Evidence) -> dict[str, int]:
    """Return how many nodes have all installs of an entry mounted from their own disk, for each entry that some have so,
    or that site.yaml wants so.
    """
    if evidence.published is None:
        return {}
    own: dict[str, set[str]] = {}
    for group in evidence.mounts.groups:
        lines = (fields_of(line, 4) for line in group.facts.get("images.copies", "").splitlines())
        copies = {(path, file) for path, _, file, _ in lines}
        for line in group.facts.get("images.mounted", "").splitlines():
            if tuple(fields_of(line, 2)) in copies:
                own.setdefault(line.partition(" ")[0], set()).update(group.nodes)
    prefix, entries, found = evidence.site.prefix, evidence.published.record.entries, {}
    wanted = evidence.site.staging.chosen(entries)
    for name, entry in entries.items():
        nodes = set.intersection(*(own.get(f"{prefix}/{path}", set()) for path in entry.paths or ("",)))
        if nodes or name in wanted:
            found[name] = len(nodes)
    return found
