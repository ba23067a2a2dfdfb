"""Differences between like nodes in their inventories, without a judgement.

Nodes are alike if they are in the same groups of the site, or of the same hardware. More than half of at least three are
right. Where they do not decide, `--reference` does; for what shells and their files are, the majority of all hosts does,
login nodes among them. Else nobody is accused: the values are named. With a baseline, a node is right that has what it had
then, and a new node that has what most nodes had.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.model import QUORUM, Evidence, Values
from envmgr.nodes.sets import fold
from envmgr.probe.model import grouped

if TYPE_CHECKING:
    from envmgr.audit.inventory.facts import Place

_NAMED = 64  # nodes that a finding about other nodes names
_ABSENT = "\0"  # stands for what is not there, among values
# What users get: all other hosts say what is right, where like nodes do not; of files these may have other ones on purpose.
_GOT = ("module", "modfile", "modpath")
_OF_ALL = (*_GOT, "file", "link")
# What is never compared with other kinds of nodes.
_OF_KIND = ("daemon", "pkg", "service", "slurm", "sys", "sysctl")
_BACKUP = re.compile(r"(\.(bak|bk|orig|old|save|rpm(save|new|orig)|dpkg-\w+|sw[op])|~)$")


@dataclass(frozen=True, slots=True)
class Difference:
    """`nodes` have `value` of a thing, and `others`, which are right, have `right`; None is not there.

    `where` is the beginning of a shell's facts, empty for the node itself. If it is not `known` which value is right,
    `others` only have another one. There are no `others` if a baseline says what is right. What is `apart` has few like nodes,
    and is not as on others: that may be meant.
    """

    kind: str
    key: str
    where: str
    value: str | None
    right: str | None
    nodes: tuple[str, ...]
    others: tuple[str, ...]
    known: bool = True
    apart: bool = False

    @property
    def path(self) -> str:
        """Return the path that it is about; empty for what has none."""
        return (self.key.rstrip("/") or "/") if self.key.startswith("/") else ""


def differences(places: Iterable[Place], evidence: Evidence) -> tuple[Difference, ...]:
    """Return everything in which a node differs from like nodes, or from the baseline."""
    return tuple(of for place in places for of in _of_place(place, evidence))


def by_their_paths(found: Iterable[Difference], home: str) -> list[Difference]:
    """Return the differences, those in the home of the user by their paths."""
    return [replace(of, key=home + of.key[1:]) if of.key.startswith("~/") else of for of in found]


def _of_place(place: Place, evidence: Evidence) -> Iterator[Difference]:
    """Yield what differs at the nodes, or in one of their shells."""
    baseline = evidence.baseline
    had = baseline.of(place.name) if baseline is not None else None
    then = {kind: baseline.nodes(place.name, kind) for kind in KINDS} if baseline and had is not None else {}
    for kind, key in sorted({*place.keys, *(at for at in had or () if at[0] in KINDS)}):
        if _BACKUP.search(key):
            continue
        values: dict[str, list[str]] = {}
        for inventory, nodes in place.told:
            value = inventory.values.get((kind, key), _ABSENT)
            # A daemon that does not run has no limits, and no cores.
            if inventory.knows(kind, key) and (value != _ABSENT or kind not in ("daemon", "limit")):
                values.setdefault(value, []).extend(nodes)
        given = {value: tuple(nodes) for value, nodes in values.items()}
        if had is not None and KINDS[kind].baseline:
            odd = _changed(given, had.get((kind, key), {}), then[kind])
        else:
            each = KINDS[kind].symptom and len(values) == sum(map(len, values.values())) >= QUORUM  # has another
            odd = iter(()) if each or len(values) <= 1 else _odd(given, evidence, _GOT[0] if place.where else kind)
        for value, right, nodes_of, others, known, apart in odd:
            yield Difference(kind, key, place.where, _said(value), _said(right), nodes_of, others, known, apart)


def _said(value: str) -> str | None:
    return None if value == _ABSENT else value


_Odd = tuple[str, str, tuple[str, ...], tuple[str, ...], bool, bool]


def _odd(values: Values, evidence: Evidence, kind: str) -> Iterator[_Odd]:
    """Yield the value, the right one and the other fields of a difference for each value that is not right."""
    reference = next((value for value, nodes in values.items() if evidence.plan.request.reference in nodes), None)
    groups = [values] if reference is not None else values_of_like_nodes(values, evidence)
    for group in groups:
        like = right = reference if reference is not None else _majority(group)
        few = sum(map(len, group.values())) < QUORUM
        if right is None and kind not in _OF_KIND:
            others = {of: [node for node in nodes if node not in group.get(of, ())] for of, nodes in values.items()}
            right = (_majority(others) if few else None) or _majority(values)
        for value, nodes in group.items():
            if right is not None and value != right:
                yield value, right, nodes, tuple(values[right]), True, like is None and few and kind not in _GOT
        alone = kind in _OF_KIND and evidence.login.issuperset(chain(*group.values()))  # login nodes have other tasks
        if right is None and len(group) > 1 and not alone:  # two that differ, or halves
            first, *rest = sorted(group.items(), key=lambda of: (-len(of[1]), of[0]))
            yield rest[0][0], first[0], tuple(chain(*(nodes for _, nodes in rest))), first[1], False, False
        elif right is None and kind in _OF_ALL and len(group) == 1 < len(values) and group is groups[-1]:  # one of each
            ((value, nodes),) = group.items()
            other = next(of for of in values if of != value)
            yield value, other, nodes, tuple(values[other]), False, True


def _changed(values: Values, had: Mapping[str, str], then: frozenset[str]) -> Iterator[_Odd]:
    """Yield the values that nodes did not have in a baseline, of the nodes `then`."""
    usual = Counter(had.get(node, _ABSENT) for node in then).most_common(1)
    wrong: dict[tuple[str, str], list[str]] = {}
    for value, nodes in values.items():
        for node in nodes:
            right = had.get(node, _ABSENT) if node in then else usual[0][0] if usual else _ABSENT
            if right != value and not value.startswith("~"):  # a digest that is good for one audit
                wrong.setdefault((value, right), []).append(node)
    for (value, right), nodes_of in wrong.items():
        yield value, right, tuple(nodes_of), (), True, False


def _majority(values: Mapping[str, Sequence[str]]) -> str | None:
    """Return the value of more than half of at least three nodes."""
    count = Counter({value: len(nodes) for value, nodes in values.items()})
    ((best, most),) = count.most_common(1)
    return best if count.total() >= QUORUM and 2 * most > count.total() else None


def values_of_like_nodes(values: Values, evidence: Evidence) -> list[dict[str, tuple[str, ...]]]:
    """Return the values of each set of like nodes, the most common first if `values` are in that order."""
    groups = evidence.groups or evidence.kinds
    of = {node: frozenset(names) for node, names in grouped((n, name) for name in groups for n in groups[name]).items()}
    each = (((node in evidence.login, of.get(node)), value, node) for value in values for node in values[value])
    found = grouped((like, (value, node)) for like, value, node in each)
    return [{value: tuple(nodes) for value, nodes in grouped(pairs).items()} for pairs in found.values()]


def as_on(nodes: Sequence[str]) -> str:
    """Return `as on c[1-3]`, short and cheap to make: each of a thousand nodes may have its own finding."""
    if not nodes:
        return "as in the baseline"
    return f"as on {fold(nodes)}" if len(nodes) <= _NAMED else f"as on {len(nodes)} others"
