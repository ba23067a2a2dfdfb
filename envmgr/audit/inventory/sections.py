"""Sections of the inventory that nodes reported by a digest: which of them to ask for whole, and what is known then.

One node stands for all with the same digest. A kind of which all nodes have one digest is not asked for: they are alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from envmgr.probe.model import Facts, Fleet

_DIGEST, _CLOSED = "inventory.digest", "inventory.closed"
_MOST = 12  # digests of a kind that are looked at, the most common first
Sections = Mapping[str, Mapping[str, tuple[str, ...]]]
"""kind -> digest -> the nodes that reported it; for kinds that differ."""


def digests(facts: Facts) -> dict[str, str]:
    """Return kind -> digest; a kind of which a node has nothing is not among them."""
    rows = (line.partition(r"\t") for line in facts.get(_DIGEST, "").splitlines())
    return {kind: digest for kind, _, digest in rows}


def sections_of(fleet: Fleet) -> Sections:
    """Return the sections in which nodes differ."""
    fleet = fleet.only(lambda facts: _DIGEST in facts)
    kinds = sorted(fleet.by_each(digests))
    found = {kind: fleet.by(lambda facts, kind=kind: digests(facts).get(kind, "")) for kind in kinds}  # type: ignore[misc]
    return {kind: of for kind, of in found.items() if len(of) > 1}


def nodes_of(sections: Sections) -> dict[str, None]:
    """Return the nodes that stand for all others, as few as there are."""
    chosen: dict[str, None] = {}
    for of in sections.values():
        for nodes in [*of.values()][:_MOST]:
            if chosen.keys().isdisjoint(nodes):
                chosen[nodes[0]] = None
    return chosen


def filled(fleet: Fleet, sections: Sections, asked: Fleet) -> tuple[Fleet, frozenset[str]]:
    """Return the fleet with the sections that were asked for, and the nodes of which one was another by then."""
    answers = asked.told
    texts: dict[tuple[str, str], str] = {}
    other: set[str] = set()
    for kind, of in sections.items():
        for digest, nodes in of.items():
            for node in (node for node in nodes if node in answers):
                texts.setdefault((kind, digest), answers[node].get(f"inventory.{kind}", ""))
                if digests(answers[node]).get(kind, "") != digest:
                    other.add(node)
    groups = []
    for group in fleet.groups:
        facts, told = dict(group.facts), digests(group.facts)
        for kind in sections if _DIGEST in facts else ():
            if (text := texts.get((kind, told.get(kind, "")))) is None:
                facts[_CLOSED] = f"{facts.get(_CLOSED, '')}\n{kind}"
            elif text:
                facts[f"inventory.{kind}"] = text
        groups.append(replace(group, facts=facts))
    return replace(fleet, groups=tuple(groups)), frozenset(other)
