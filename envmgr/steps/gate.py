"""The gate of `envmgr build`: can the nodes that the last audit saw run what is about to be built?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from envmgr.catalog.fitness import NodeFacts, NodeNeeds, Verdict, judge_gpu, unfit, without_gpu
from envmgr.catalog.names import numbers
from envmgr.catalog.site_file import CPU_ORDER
from envmgr.errors import EnvmgrError
from envmgr.nodes.sets import fold
from envmgr.steps import Context
from envmgr.store.node_facts import FleetFacts, facts_file, read_node_facts

Mode = Literal["off", "warn", "refuse"]

OLD_DAYS = 30.0
_NO_GROUP = "in no group"


@dataclass(frozen=True, slots=True)
class Unfit:
    """Nodes (folded) of one group that cannot run an entry, and why."""

    entry: str
    group: str
    nodes: str
    reason: str

    def __str__(self) -> str:
        return f"{self.entry}, {self.group}: {self.reason} ({self.nodes})"


def pass_gate(ctx: Context, requirements: Mapping[str, NodeNeeds], mode: Mode) -> tuple[str, ...]:
    """Report what speaks against building the entries; return it, one line each.

    Raises EnvmgrError `gate-no-facts`, `gate-unfit` and `node-facts-damaged` where the mode is to refuse.
    """
    if mode == "off" or not requirements:
        return ()
    warnings: tuple[str, ...] = ()
    try:
        fleet = _known_facts(ctx)
        # Collected before the check: a failure in `warn` mode shows these warnings too.
        warnings = (*_old(fleet), *_nowhere(requirements, fleet), *_said(requirements, fleet))
        _require_fit(requirements, fleet)
    except EnvmgrError as error:
        if mode == "refuse":
            raise
        warnings = tuple(dict.fromkeys((error.message, *error.context, *warnings)))
    for warning in warnings:
        ctx.reporter.say(f"warning: {warning}")
    return warnings


def _known_facts(ctx: Context) -> FleetFacts:
    fleet = read_node_facts(ctx.prefix)
    if fleet is None or not fleet.seen:
        message, context = "no audit has found out yet what the nodes can run", f"nothing in {facts_file(ctx.prefix)}"
        hint = "`envmgr audit`, then build; `--no-gate` builds without asking"
        raise EnvmgrError("gate-no-facts", message, context=context, hint=hint)
    return fleet


def _require_fit(requirements: Mapping[str, NodeNeeds], fleet: FleetFacts) -> None:
    found = unfit_nodes(requirements, fleet)
    if found:
        entries = ", ".join(dict.fromkeys(item.entry for item in found))
        since = time.strftime("%Y-%m-%d", time.gmtime(min(seen.time for seen in fleet.seen)))
        least = f"lowest common denominator: {common_denominator(fleet)}"
        context = [*map(str, found), least, f"audited since {since}", *_old(fleet)]
        hint = "require less, or fix the nodes and run `envmgr audit`; `--no-gate` builds anyway"
        raise EnvmgrError("gate-unfit", f"not every node can run {entries}", context=context, hint=hint)


def unfit_nodes(requirements: Mapping[str, NodeNeeds], fleet: FleetFacts) -> tuple[Unfit, ...]:
    """Return the nodes that cannot run the entries, by entry, group of the site and reason."""
    known = fleet.by_node()
    groups = {name: [n for n in nodes if n in known] for name, nodes in fleet.groups.items()}
    grouped = {node for nodes in groups.values() for node in nodes}
    groups[_NO_GROUP] = [node for node in known if node not in grouped]
    found: list[Unfit] = []
    for entry, requires in requirements.items():
        reasons = {node: unfit(requires, facts) for node, facts in known.items()}
        found += _by_group(entry, groups, reasons)
    return tuple(found)


def _by_group(
    entry: str, groups: Mapping[str, Sequence[str]], reasons: Mapping[str, tuple[str, ...]]
) -> Iterator[Unfit]:
    for group, nodes in groups.items():
        by_reason: dict[str, list[str]] = {}
        for node in nodes:
            for reason in reasons[node]:
                by_reason.setdefault(reason, []).append(node)
        yield from (Unfit(entry, group, fold(bad), reason) for reason, bad in by_reason.items())


_SAID = {
    Verdict.NO_JIT: "runs without what is compiled at run time",
    Verdict.FORWARD: "runs",
    Verdict.UNKNOWN: "whether it runs is not known",
}


def _said(requirements: Mapping[str, NodeNeeds], fleet: FleetFacts) -> tuple[str, ...]:
    """Return what is no full support, but does not speak against a build either; with the nodes."""
    known = fleet.by_node()
    lines = []
    for entry, needs in requirements.items():
        judged = {node: judge_gpu(needs, facts) for node, facts in known.items()}
        reasons = {
            node: (f"{_SAID[each.verdict]}: {each.reason}",)
            if each and each.verdict in _SAID and not each.refused
            else ()
            for node, each in judged.items()
        }
        lines += [f"{each.entry} {each.reason} ({each.nodes})" for each in _by_group(entry, {"": list(known)}, reasons)]
    return tuple(lines)


def common_denominator(fleet: FleetFacts) -> str:
    """Return the least of everything, with the nodes that have no more: what an entry may require to run on all
    nodes.
    """
    known = fleet.by_node()
    parts = []
    for name, value, order in _ASPECTS:
        values = {node: found for node, facts in known.items() for found in [value(facts)] if found}
        if values:
            least = min(values.values(), key=order)
            parts.append(f"{name} {least} ({fold(node for node, found in values.items() if found == least)})")
    return ", ".join(parts)


def _least_capability(facts: NodeFacts) -> str:
    return min((gpu.arch for gpu in facts.gpus if gpu.vendor == "nvidia" and gpu.arch), key=numbers, default="")


_ASPECTS: tuple[tuple[str, Callable[[NodeFacts], str], Callable[[str], tuple[int, ...]]], ...] = (
    ("driver", lambda facts: facts.driver, numbers),
    ("compute capability", _least_capability, numbers),
    ("glibc", lambda facts: facts.glibc, numbers),
    ("CPU level", lambda facts: facts.cpu_level, lambda level: (CPU_ORDER.get(level, 0),)),
)


def _nowhere(requirements: Mapping[str, NodeNeeds], fleet: FleetFacts) -> tuple[str, ...]:
    """Return the entries that need a GPU where no node has one: modules load there too, so nothing is refused."""
    known = fleet.by_node().values()
    return tuple(
        f"{entry} needs a GPU, and no node that the last audit saw has one"
        for entry, requires in requirements.items()
        if known and all(without_gpu(requires, facts) for facts in known)
    )


def _old(fleet: FleetFacts) -> tuple[str, ...]:
    now = time.time()
    old = [seen for seen in fleet.seen if now - seen.time > OLD_DAYS * 86400]
    if not old:
        return ()
    days = round((now - min(seen.time for seen in old)) / 86400)
    nodes = fold(node for seen in old for node in seen.nodes)
    return (f"{nodes}: last audited up to {days} days ago; `envmgr audit` looks again",)
