"""Like nodes: those of the same groups of the site, or of the same hardware; login nodes are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from envmgr.nodes.sets import fold
from envmgr.probe.model import grouped

if TYPE_CHECKING:
    from envmgr.audit.model import Evidence, Values

_NAMED = 64  # nodes that a finding about other nodes names


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
