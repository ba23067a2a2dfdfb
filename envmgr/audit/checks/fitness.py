"""What each published entry requires, against what each node has: driver, GPUs, glibc, CPU. Makes the matrix entries x nodes.

The NVIDIA driver must be at least the recipe's `requires.nvidia_driver`, which follows NVIDIA's minor-version rule; one GPU
must have a compute capability of the same major number as one in `requires.compute_capability`, and no lower minor one;
glibc and the x86-64 level must be at least what is required. A node without driver and GPU (a login node) is no fault: there
an entry does what it does without a GPU. What is not known of a node is not held against it.

An entry that no node can run is an error; so is a node that cannot run what others of its node group run. An entry that a
whole group cannot run while others can is a note. Within a group, nodes that differ in driver, GPUs, glibc or CPU level are
told. A GPU without a driver, and a driver that `nvidia-smi` cannot talk to (often an update without a reboot), are errors.

The facts are kept in `var/audit/nodes.json` under the prefix, where `envmgr build --gate` reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from envmgr.audit.comparing import drift
from envmgr.audit.folding import joined, short
from envmgr.audit.matrix import observed, required
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.catalog.cuda import MINIMUM_DRIVER
from envmgr.catalog.fitness import NodeFacts, level_flags, unfit, without_gpu
from envmgr.catalog.recipe import Requires
from envmgr.catalog.target import CPU_ORDER
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.probe.model import Fleet, Group, ProbeStage
from envmgr.system.shelltext import assign, script_text

SMI_SECONDS = 6  # without its persistence daemon a driver needs one or two to wake up


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    flags = sorted({flag for needed in level_flags().values() for flag in needed} | {"pni"})
    return {
        "node": assign(fitness_seconds=SMI_SECONDS, fitness_flags="|".join(flags)) + script_text(__file__, "node.sh")
    }


def judge(evidence: Evidence) -> Iterator[Finding]:
    yield from _drivers(evidence)
    yield from _site_level(evidence)
    yield from (_fewer_names(finding) for finding in joined(_unfit_entries(evidence)))
    yield from joined(_drift(evidence))


def _fewer_names(finding: Finding, most: int = 8) -> Finding:
    names = finding.where.split(", ")
    if len(names) <= most:
        return finding
    where = f"{', '.join(names[:most])} and {len(names) - most} more"
    return Finding(finding.check, finding.severity, where, finding.found, finding.expected, finding.hint, finding.nodes)


def _unfit_entries(evidence: Evidence) -> Iterator[Finding]:
    """Without missing libraries: those are told by the check of them."""
    facts = observed(evidence)
    places = _places(evidence)
    for entry, requires in required(evidence):
        wrong: dict[str, list[str]] = {}
        right: list[str] = []
        for of_nodes, nodes in facts.items():
            for reason in (reasons := unfit(requires, of_nodes)):
                wrong.setdefault(reason, []).extend(nodes)
            if not reasons and not without_gpu(requires, of_nodes):
                right += nodes
        with_right = {place for node in right for place in places[node]}
        for reason, unable in wrong.items():
            at_fault = [n for n in unable if not right or places[n] & with_right]
            by_design = [n for n in unable if right and not places[n] & with_right]
            if at_fault:
                expected = f"as on {fold(right)}" if right else "a node that can run it; none of these can"
                yield Finding("fitness", "error", entry, reason, expected, _hint(reason, requires), fold(at_fault))
            if by_design:
                yield Finding("fitness", "note", entry, reason, f"it runs on {fold(right)}", "", fold(by_design))


def _places(evidence: Evidence) -> dict[str, frozenset[str]]:
    """node -> its groups in site.yaml; nodes that are in none are one group."""
    found: dict[str, set[str]] = {node: set() for node in evidence.nodes}
    for name, members in evidence.groups.items():
        for node in members:
            found.setdefault(node, set()).add(name)
    return {node: frozenset(names or {""}) for node, names in found.items()}


def _hint(reason: str, requires: Requires) -> str:
    driver = requires.nvidia_driver
    if driver and reason.startswith("driver "):
        cuda = next((f" (CUDA {major})" for major, minimum in MINIMUM_DRIVER.items() if minimum == driver), "")
        return f"install NVIDIA driver {driver}{cuda} or newer there, and reboot"
    if reason.startswith("no NVIDIA driver"):
        return "`modprobe nvidia` on the node says why; after a kernel update the driver must be built again"
    if reason.startswith("glibc "):
        return "glibc comes with the operating system: update it there, or take an entry built for an older one"
    if reason.startswith("CPU "):
        return f"take an entry built for {reason.split()[2].rstrip(',')}"
    return "take an entry with code for these GPUs"


def _drivers(evidence: Evidence) -> Iterator[Finding]:
    """GPUs and drivers that do not work, whatever is published."""
    over_ssh = next(iter(evidence.ways)) == "ssh"  # jobs may be shown only the GPUs that they asked for
    fleet = evidence.fleet
    for said, nodes in fleet.by_value("fitness.smi").items():
        if said == "hung":
            yield Finding(
                "fitness", "error", "nvidia-smi", "does not answer", f"an answer in {SMI_SECONDS} s",
                "`dmesg | grep -i -e xid -e nvrm` on the node; a GPU that fell off the bus needs a reboot", fold(nodes),
            )  # fmt: skip
        elif over_ssh or not said.startswith("No devices"):
            yield Finding(
                "fitness", "error", "nvidia-smi", short(f"fails: {said}"), "the GPUs that the driver sees",
                "driver and library of different versions? reboot after a driver update", fold(nodes),
            )  # fmt: skip
    without = fleet.only(lambda f: f.get("fitness.driver") == "" and f.get("fitness.devices", "0") != "0")
    for count, nodes in without.by_value("fitness.devices").items():
        yield Finding(
            "fitness", "error", "NVIDIA driver", "none is loaded", f"one, for {_gpus(count)}",
            "`modprobe nvidia` on the node says why; after a kernel update the driver must be built again", fold(nodes),
        )  # fmt: skip


def _gpus(count: str) -> str:
    return "the node's GPU" if count == "1" else f"the node's {count} GPUs"


def _site_level(evidence: Evidence) -> Iterator[Finding]:
    """Nodes below what everything at this site is built for."""
    wanted = evidence.site.cpu_level
    below: dict[str, list[str]] = {}
    for facts, nodes in observed(evidence).items():
        level = facts.cpu_level
        if level and level != wanted and CPU_ORDER.get(level, 0) < CPU_ORDER.get(wanted, 9):
            below.setdefault(level, []).extend(nodes)
    for level, low in below.items():
        yield Finding(
            "fitness", "warning", "CPU level", level, f"{wanted}, by cpu_level in site.yaml",
            "what is compiled for this site may not run there; lower cpu_level, and build again", fold(low),
        )  # fmt: skip


def _drift(evidence: Evidence) -> Iterator[Finding]:
    """Node against node, inside each group of the site."""
    told = observed(evidence)
    alike = replace(evidence, groups={}, login=frozenset())  # all that are in one group
    for name, listed in evidence.groups.items():
        members = frozenset(listed)
        groups = tuple(
            Group(_comparable(facts), kept)
            for facts, nodes in told.items()
            if (kept := tuple(n for n in nodes if n in members))
        )
        fleet = Fleet(groups, {}, {}, ())
        for key, hint in _COMPARED.items():
            yield from drift(
                "fitness", f"group {name}", fleet.by_value(key), alike, hint=hint, say=partial(_said, key),
                severity="note" if key == "operating system" else "warning",
            )  # fmt: skip


_COMPARED = {
    "driver": "the same driver on all nodes of a group, or two groups in site.yaml",
    "GPUs": "one gone? `nvidia-smi -L`, `dmesg | grep -i xid`; nodes of two kinds are two groups in site.yaml",
    "glibc": "the same operating system on all nodes of a group, or two groups in site.yaml",
    "CPU level": "nodes of two kinds are two groups in site.yaml",
    "operating system": "",
}


def _comparable(facts: NodeFacts) -> dict[str, str]:
    """Without GPUs where none are known: a driver that is missing or does not work is told as such."""
    compared = {
        "driver": facts.driver,
        "glibc": facts.glibc,
        "CPU level": facts.cpu_level or facts.arch,
        "operating system": f"{facts.os_id} {facts.os_version}".strip(),
    }
    count = Counter(name for name, _ in facts.gpus)
    gpus = ", ".join(f"{number} x {name}" for name, number in sorted(count.items()))
    return compared | ({"GPUs": gpus} if gpus else {})


def _said(key: str, value: str) -> str:
    if key == "driver":
        return f"driver {value}" if value else "no NVIDIA driver"
    return f"{key} {value or 'unknown'}"
