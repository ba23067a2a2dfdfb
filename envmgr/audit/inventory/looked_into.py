"""What the second look found on the way to what was named, and in folders whose digests differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from envmgr.audit.inventory.differences import Difference
from envmgr.audit.second_look import Seen, Wanted


def with_what_is_there(found: Sequence[Difference], wanted: Wanted, seen: Seen) -> list[Difference]:
    """Return the differences, with those that the second look found; these come in the place of a folder's digest."""
    real = [*dict.fromkeys((*found, *_seen_there(found, wanted, seen)))]
    return [of for of in real if of.kind != "tree" or not any(_is_in(each, of) for each in real)]


def _seen_there(found: Sequence[Difference], wanted: Wanted, seen: Seen) -> Iterator[Difference]:
    """Yield what differs there, and no inventory has.

    A path that nodes only came to by links is compared where it is.
    """
    told = {node: dict(seen.pairs(node, "ways")) for node in (*wanted.normal, *wanted.nodes) if node in seen.facts}
    trees = [of for of in found if of.kind == "tree"]
    named = {path for way in wanted.paths for path in (way, *map(str, PurePath(way).parents))}
    for path in sorted({path for of in told.values() for path in of} - {of.key for of in found}):
        values = {node: of.get(path) for node, of in told.items()}
        ((usual, _),) = Counter(values.values()).most_common(1)
        for node, value in values.items():
            tree = next((of for of in trees if node in of.nodes and path.startswith(f"{of.key}/")), None)
            right = next((values[other] for other in tree.others if other in values), usual) if tree else usual
            if value != right and (tree or path in named or None not in (value, right)):
                kind, other = (value or right or "").split(" ")[0], (tree.others if tree else wanted.normal[:1])
                nodes, known, apart = (tree.nodes, tree.known, tree.apart) if tree else ((node,), True, False)
                yield Difference(kind, path, "", _value(value), _value(right), nodes, other, known, apart)


def _is_in(of: Difference, tree: Difference) -> bool:
    return of.path.startswith(f"{tree.key}/") and not {*tree.nodes}.isdisjoint(of.nodes)


def _value(told: str | None) -> str | None:
    """Return what is told of a path, `KIND VALUE`, without the kind."""
    return None if told is None else told.partition(" ")[2]
