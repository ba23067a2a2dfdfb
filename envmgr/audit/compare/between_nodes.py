"""Comparison of nodes: which nodes differ from like nodes, and where it is unknown which node is right.

Nodes are alike if they are in the same groups of the site; login nodes are separate. Among at least three like nodes,
the value of more than half is right, and the others are reported. Two differing nodes, equal halves, and groups that
differ from each other accuse no node: they are reported as different. The audit's `--reference NODE` is right, whatever
other nodes have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from envmgr.audit.baseline import Compared
from envmgr.audit.model import QUORUM, Evidence, Outlier, Values
from envmgr.audit.table import short
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts, Fleet, Group

_NAMED = 64  # nodes that a finding about other nodes names


def merged(values: Values, into: Callable[[str, tuple[str, ...]], str]) -> dict[str, tuple[str, ...]]:
    """Return the values that `into(value, nodes)` makes of these, each with all nodes that then have it."""
    found: dict[str, tuple[str, ...]] = {}
    for value, nodes in values.items():
        made = into(value, nodes)
        found[made] = (*found.get(made, ()), *nodes)
    return found


def by_name(fleet: Fleet, parse: Callable[[Facts], Mapping[str, str]], missing: str = "") -> dict[str, Values]:
    """Return each name that `parse` finds in an answer, sorted, with its value -> nodes; `missing` for nodes without it."""
    answers = [(parse(group.facts), group.nodes) for group in fleet.groups]
    found: dict[str, Values] = {}
    for name in sorted({name for values, _ in answers for name in values}):
        of_name = Fleet(tuple(Group({name: values.get(name, missing)}, nodes) for values, nodes in answers), {}, {}, ())
        found[name] = of_name.by_value(name)
    return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outliers, and in `differ` the values of which none can be chosen as right, each with its nodes.

    `differ` is empty if there are no such values. `by_kind` means that each kind of hardware agrees in itself, and they
    differ from each other.
    """

    outliers: tuple[Outlier, ...] = ()
    differ: Values | None = None
    by_kind: bool = False

    @property
    def between(self) -> list[str]:
        """Return the nodes that differ from each other."""
        return [node for nodes in (self.differ or {}).values() for node in nodes]


def compare(values: Values, evidence: Evidence) -> Comparison:
    """Judge the nodes of `values` against each other, or by `--reference`."""
    if len(values) < 2:
        return Comparison()
    if (right := next((value for value, nodes in values.items() if evidence.reference in nodes), None)) is not None:
        wrong = [Outlier(value, of, right, (evidence.reference,)) for value, of in values.items() if value != right]
        return Comparison(tuple(wrong))
    outliers: dict[tuple[str, str], list[str]] = {}
    agreed: dict[str, list[str]] = {}
    undecided: dict[str, list[str]] = {}
    for of_group in values_of_like_nodes(values, evidence):
        count = sum(map(len, of_group.values()))
        best, most = max(of_group.items(), key=lambda item: len(item[1]))
        if len(of_group) > 1 and (count < QUORUM or 2 * len(most) <= count):
            for value, having in of_group.items():
                undecided.setdefault(value, []).extend(having)
            continue
        agreed.setdefault(best, []).extend(most)
        for value, having in of_group.items():
            if value != best:
                outliers.setdefault((value, best), []).extend(having)
    found = tuple(
        Outlier(value, tuple(having), best, tuple(agreed[best])) for (value, best), having in outliers.items()
    )
    if not undecided and len(agreed) < 2:
        return Comparison(found)
    differ = {value: [*agreed.get(value, ()), *undecided.get(value, ())] for value in {**agreed, **undecided}}
    ordered = sorted(differ.items(), key=lambda item: (-len(item[1]), item[0]))
    return Comparison(found, {value: tuple(nodes) for value, nodes in ordered}, bool(evidence.kinds) and not undecided)


def chosen(compared: Compared, values: Values, evidence: Evidence) -> Comparison:
    """Compare as `compare` does, or with a baseline.

    With a baseline, a node is right if it has the value that it had then, and a new node if it has what most nodes had.
    What was not asked for then, or by a check that draws a sample, is compared between nodes. Callers also yield
    `Noted`.
    """
    if evidence.baseline is None or not evidence.baseline.asked.has(compared, evidence.plan.user):
        return compare(values, evidence)
    known = evidence.baseline.right(compared)
    if known is None and evidence.table.sampled:
        return compare(values, evidence)
    had = known or {}
    usual = Counter(had.values()).most_common(1)
    wrong: dict[tuple[str, str], list[str]] = {}
    for value, nodes in values.items():
        for node in nodes:
            if (right := had.get(node, usual[0][0] if usual else "")) != value:
                wrong.setdefault((value, right), []).append(node)
    return Comparison(tuple(Outlier(value, tuple(nodes), right, ()) for (value, right), nodes in wrong.items()))


def is_new(compared: Compared, evidence: Evidence) -> bool:
    """Return whether there is a baseline that asked for it and lacks it."""
    baseline = evidence.baseline
    return (
        baseline is not None and baseline.asked.has(compared, evidence.plan.user) and baseline.right(compared) is None
    )


def values_of_like_nodes(values: Values, evidence: Evidence) -> list[dict[str, tuple[str, ...]]]:
    """Return the values of each set of like nodes, the most common first if `values` are in that order."""
    member: dict[str, set[str]] = {}
    for name, nodes in (evidence.groups or evidence.kinds).items():
        for node in nodes:
            member.setdefault(node, set()).add(name)
    found: dict[tuple[bool, frozenset[str]], dict[str, list[str]]] = {}
    for value, nodes in values.items():
        for node in nodes:
            key = (node in evidence.login, frozenset(member.get(node, ())))
            found.setdefault(key, {}).setdefault(value, []).append(node)
    return [{value: tuple(nodes) for value, nodes in of_group.items()} for of_group in found.values()]


def as_on(nodes: Sequence[str]) -> str:
    """Return `as on c[1-3]`, short and cheap to make: each of a thousand nodes may have its own finding."""
    if not nodes:
        return "as in the baseline"
    return f"as on {fold(nodes)}" if len(nodes) <= _NAMED else f"as on {len(nodes)} others"


def alike(compared: Comparison) -> str:
    """Return the expected state of nodes that differ."""
    return _BY_KIND if compared.by_kind else _ALIKE


_ALIKE = "the same everywhere; `--reference NODE` says which node is right"
_BY_KIND = "the same everywhere, unless these kinds of hardware are meant to differ: each of them agrees in itself"


def other_parts(also: Iterable[str], lacks: Iterable[str], by: str = ":") -> str:
    """Return how a list differs: `also has A:B and lacks C`; empty if it has the same parts."""
    words = [("also has", by.join(also)), ("lacks", by.join(lacks))]
    return " and ".join(f"{verb} {parts}" for verb, parts in words if parts)


def other_lines(of: Outlier) -> str:
    """Return the lines that only the outlier has, and those that it lacks."""
    here, there = of.value.splitlines(), of.right.splitlines()
    also, lacks = (line for line in here if line not in there), (line for line in there if line not in here)
    return short(other_parts(also, lacks, ", "))
