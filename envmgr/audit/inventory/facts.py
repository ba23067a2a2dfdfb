"""The inventory of a node or of one of its shells, from the facts that it reports; and of a place, which several nodes report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from envmgr.audit.inventory.kinds import KINDS, STAGES, Scope
from envmgr.probe.model import Facts
from envmgr.probe.shell import looked_key

_PART = "inventory"
_TAB = r"\t"  # as facts have it: see `escaped`


@dataclass(frozen=True, slots=True)
class NodeInventory:
    """(kind, key) -> value. `closed` are kinds that were not looked at whole, and are compared with nothing; `unread` single keys
    that this account may not read; `cut` kinds of which there is more.
    """

    values: Mapping[tuple[str, str], str]
    closed: frozenset[str] = frozenset()
    unread: frozenset[tuple[str, str]] = frozenset()
    cut: frozenset[str] = frozenset()

    def knows(self, kind: str, key: str) -> bool:
        """Return whether it was looked at whole: what it does not have is not there."""
        return kind not in self.closed and kind not in self.cut and (kind, key) not in self.unread


@dataclass(frozen=True, slots=True)
class Place:
    """The inventories of a place, each with the nodes that reported it. `name` is for people and baselines, and empty for what
    is drawn again each day; `where` is the beginning of a shell's facts.
    """

    name: str
    where: str
    told: Sequence[tuple[NodeInventory, tuple[str, ...]]]

    def only(self, kinds: Collection[str]) -> Place:
        """Return it with these kinds, or with all for none."""
        if not kinds:
            return self
        told = ((replace(of, closed=of.closed | KINDS.keys() - kinds), nodes) for of, nodes in self.told)
        return replace(self, told=[(replace(of, values=_of_kinds(of, kinds)), nodes) for of, nodes in told])

    @property
    def keys(self) -> frozenset[tuple[str, str]]:
        """Return (kind, key) of all that any node has there."""
        return frozenset(at for inventory, _ in self.told for at in inventory.values)


def _of_kinds(of: NodeInventory, kinds: Collection[str]) -> dict[tuple[str, str], str]:
    return {at: value for at, value in of.values.items() if at[0] in kinds}


def read_inventory(facts: Facts, beginning: str = "", scope: Scope = "node") -> NodeInventory:
    """Return the inventory of the kinds with this scope: the node's, its modules', or that of the shell whose facts begin so.

    Kinds that the answer says nothing about, because the look did not end, are closed.
    """
    values: dict[tuple[str, str], str] = {}
    told: dict[str, list[str]] = {"closed": [], "cut": []}
    start = f"{beginning}{_PART}."
    for fact, text in facts.items():
        kind = fact.removeprefix(start)
        if kind == fact:
            continue
        if kind in told:
            told[kind] = [line.partition(_TAB)[0] for line in text.splitlines()]
        elif kind in KINDS and KINDS[kind].scope == scope:
            for line in text.splitlines():
                key, tab, value = line.partition(_TAB)
                if tab:
                    values[kind, key] = value
    if beginning and (has := facts.get(f"{beginning}module")) is not None:  # the check `contexts` asks for it
        values["modcmd", "module"] = {"yes": "Lmod's", "no": "not there"}.get(has, facts.get(f"{beginning}tool") or has)
    closed = {line for line in told["closed"] if line in KINDS}
    if f"{beginning}{looked_key(_PART, STAGES[scope])}" not in facts or "all" in told["closed"]:
        closed |= {name for name, of in KINDS.items() if of.scope == scope}
    unread = (line.partition(" ") for line in told["closed"])
    return NodeInventory(
        {at: value for at, value in values.items() if at[0] not in closed},
        frozenset(closed),
        frozenset((kind, key) for kind, _, key in unread if key and kind in KINDS),
        frozenset(told["cut"]).intersection(KINDS),
    )
