"""Like nodes: those of the same groups of the site, or of the same hardware; login nodes are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from envmgr.nodes.sets import fold

if TYPE_CHECKING:
    from envmgr.audit.model import Evidence, Values

_NAMED = 64  # nodes that a finding about other nodes names


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
