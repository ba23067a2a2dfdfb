"""Differences between like nodes in their inventories, without a judgement.

Nodes are alike if they are in the same groups of the site, or of the same hardware. More than half of at least three are
right. Where they do not decide, `--reference` does; for what shells and their files are, the majority of all hosts does,
login nodes among them. Else nobody is accused: the values are named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from envmgr.audit.compare.between_nodes import values_of_like_nodes
from envmgr.audit.inventory.facts import NodeInventory, read_inventory
from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.inventory.modules import read_modules
from envmgr.audit.model import QUORUM, Evidence, Values
from envmgr.nodes.slurm import slurm_names

_ABSENT = "\0"  # stands for what is not there, among values
_SLURM = "slurm"
_OF_ALL = (
    "file",
    "link",
    "module",
    "modfile",
    "modpath",
)  # compared with all other hosts, too, where like nodes do not decide
_BACKUP = re.compile(r"(\.(bak|bk|orig|old|save|rpm(save|new|orig)|dpkg-\w+|sw[op])|~)$")


@dataclass(frozen=True, slots=True)
class Difference:
    """`nodes` have `value` of a thing, and `others`, which are right, have `right`; None is not there.

    `where` is the beginning of a shell's facts, empty for the node itself. If it is not `known` which value is right,
    `others` only have another one.
    """

    kind: str
    key: str
    where: str
    value: str | None
    right: str | None
    nodes: tuple[str, ...]
    others: tuple[str, ...]
    known: bool = True

    @property
    def path(self) -> str:
        """Return the path that it is about; empty for what has none."""
        return self.key if self.key.startswith("/") else ""


def differences(evidence: Evidence) -> tuple[Difference, ...]:
    """Return everything in which a node differs from like nodes."""
    hosts = evidence.here.groups if evidence.here else ()
    places = [("", (*evidence.fleet.groups, *hosts))]
    places += [(shell.key, shell.fleet.groups) for shell in evidence.each_shell()]
    found: list[tuple[str, _Told]] = [
        (key, [(read_inventory(of.facts, key), of.nodes) for of in groups]) for key, groups in places
    ]
    found += [("", of_module) for of_module in read_modules(evidence.shells)]
    found.append(("", _by_slurm(evidence)))
    return tuple(of for where, told in found for of in _of_place(where, told, evidence))


_Told = Sequence[tuple[NodeInventory, tuple[str, ...]]]


def _by_slurm(evidence: Evidence) -> _Told:
    """Return what Slurm says of each node that it knows. It has no version of a node that never came up."""
    rows, none = evidence.slurm.rows, frozenset[str]()
    return [
        (NodeInventory({(_SLURM, key): value for key, value in row.items()}, none, frozenset(unread), none), (node,))
        for node, name in slurm_names(rows, evidence.nodes).items()
        for row in [rows[name]]
        for unread in [() if "Version" in row else [(_SLURM, "Version")]]
    ]


def _of_place(where: str, found: _Told, evidence: Evidence) -> Iterator[Difference]:
    """Yield what differs at the nodes, or in one of their shells."""
    for at in sorted({at for inventory, _ in found for at in inventory.values}):
        kind, key = at
        if _BACKUP.search(key):
            continue
        values: dict[str, list[str]] = {}
        for inventory, nodes in found:
            if kind not in inventory.closed and kind not in inventory.cut and at not in inventory.unread:
                values.setdefault(inventory.values.get(at, _ABSENT), []).extend(nodes)
        own = KINDS[kind].symptom and len(values) == sum(map(len, values.values())) >= QUORUM  # each node has another
        if len(values) > 1 and not own:
            given = {value: tuple(nodes) for value, nodes in values.items()}
            for value, right, nodes, others, known in _odd(given, evidence, of_all=bool(where) or kind in _OF_ALL):
                yield Difference(kind, key, where, _said(value), _said(right), nodes, others, known)


def _said(value: str) -> str | None:
    return None if value == _ABSENT else value


_Odd = tuple[str, str, tuple[str, ...], tuple[str, ...], bool]


def _odd(values: Values, evidence: Evidence, *, of_all: bool) -> Iterator[_Odd]:
    """Yield (value, right value, nodes, nodes that are right, whether that is known) for each value that is not right."""
    reference = next((value for value, nodes in values.items() if evidence.reference in nodes), None)
    groups = [values] if reference is not None else values_of_like_nodes(values, evidence)
    for group in groups:
        right = reference if reference is not None else _majority(group)
        if right is None and of_all:
            others = {
                value: [node for node in nodes if node not in group.get(value, ())] for value, nodes in values.items()
            }
            right = _majority(others) or _majority(values)
        for value, nodes in group.items():
            if right is not None and value != right:
                yield value, right, nodes, tuple(values[right]), True
        if right is None and len(group) > 1:  # two that differ, or halves
            first, *rest = sorted(group.items(), key=lambda of: (-len(of[1]), of[0]))
            yield rest[0][0], first[0], tuple(chain(*(nodes for _, nodes in rest))), first[1], False


def _majority(values: Mapping[str, Sequence[str]]) -> str | None:
    """Return the value of more than half of at least three nodes."""
    count = Counter({value: len(nodes) for value, nodes in values.items()})
    ((best, most),) = count.most_common(1)
    return best if count.total() >= QUORUM and 2 * most > count.total() else None
