"""Differences that the second look found: lines of files, what lies on the way to what was named, and in folders whose digests differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import unified_diff
from pathlib import PurePath

from envmgr.audit.inventory.differences import Difference
from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.second_look import SECRET, Seen, Wanted
from envmgr.probe.model import grouped

_DATED = ("file", "link", "dir", "prog", "modfile")  # kinds of which a time says something
Lines = Mapping[tuple[str, str], tuple[str, ...]]
"""(node, file) -> the lines that only it has, or lacks."""


def with_what_is_there(found: Sequence[Difference], wanted: Wanted, seen: Seen) -> list[Difference]:
    """Return the differences, with those that the second look found; these come in the place of a folder's digest."""
    real = [*dict.fromkeys((*found, *_seen_there(found, wanted, seen)))]
    return [of for of in real if of.kind != "tree" or not any(_is_in(each, of) for each in real)]


def _seen_there(found: Sequence[Difference], wanted: Wanted, seen: Seen) -> Iterator[Difference]:
    """Yield what differs there, and no inventory has.

    A path that nodes only came to by links is compared where it is. Where every node is odd nobody knows what is right.
    """
    seen_ways = {node: seen.ways(node) for node in (*wanted.normal, *wanted.nodes) if node in seen.facts}
    trees = [of for of in found if of.kind == "tree"]
    named = {path for way in wanted.paths for path in (way, *map(str, PurePath(way).parents))}
    for path in sorted({path for of in seen_ways.values() for path in of} - {of.key for of in found}):
        values = {node: of.get(path) for node, of in seen_ways.items()}
        ((usual, _),) = Counter(values.values()).most_common(1)
        for node, value in values.items():
            tree = next((of for of in trees if node in of.nodes and path.startswith(f"{of.key}/")), None)
            right = next((values[other] for other in tree.others if other in values), usual) if tree else usual
            if value != right and (tree or (wanted.normal and (path in named or None not in (value, right)))):
                kind, other = (value or right or "").split(" ")[0], (tree.others if tree else wanted.normal[:1])
                nodes, known, apart = (tree.nodes, tree.known, tree.apart) if tree else ((node,), True, False)
                here, there = (of and of.partition(" ")[2] for of in (value, right))
                yield Difference(kind, path, "", here, there, nodes, other, known, apart)


def turned_by_time(found: Sequence[Difference], seen: Seen) -> Iterator[Difference]:
    """Yield the differences. Where as many hosts have either value, those are wrong on which the path changed last, and so is all
    that differs between the same hosts, or some of them.
    """
    every = grouped(((of.kind, of.key, of.where, of.value), node) for of in found for node in of.nodes)
    have = {of: tuple(every[of.kind, of.key, of.where, of.value]) for of in found}
    mounted = tuple(f"{of.path}/" for of in found if of.kind == "mount")  # times tell nothing of what lies there
    doubt = {of for of in found if len(have[of]) >= len(of.others) > 1 and not f"{of.path}/".startswith(mounted)}
    last = {those: {*have[of], *of.others} for of in doubt if (those := _changed_last(of, have[of], seen))}
    for of in found:
        may = of.others and (of in doubt or KINDS[of.kind].symptom)  # which only jobs may show
        late = [{*those} for those, both in last.items() if may and both >= {*have[of], *of.others}]
        if any(those.isdisjoint(have[of]) and those >= {*of.others} for those in late):
            yield replace(of, value=of.right, right=of.value, nodes=of.others, others=have[of], known=True, apart=False)
        else:
            yield replace(of, known=of.known or any(those.isdisjoint(of.others) for those in late))


def _changed_last(of: Difference, hosts: Sequence[str], seen: Seen) -> Sequence[str]:
    """Return those of the two sides on which the path changed after it did on all of the others; none if nobody knows."""
    here, there = ([seen.changed(node, of.path) for node in side if node in seen.facts] for side in (hosts, of.others))
    if of.kind not in _DATED or not here or not there or 0 in (*here, *there):
        return ()
    return of.others if min(there) > max(here) else hosts if min(here) > max(there) else ()


def _is_in(of: Difference, tree: Difference) -> bool:
    return of.path.startswith(f"{tree.key}/") and not {*tree.nodes}.isdisjoint(of.nodes)


def lines_that_differ(found: Iterable[Difference], seen: Seen) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """Yield for each node and file that differs the lines that only this node has, and then those that it lacks."""
    for of in (each for each in found if each.kind == "file"):
        for nodes, others in ((of.nodes, of.others), (of.others, of.nodes)):
            right = next((text for node in others if (text := seen.text(node, of.key)) is not None), [])
            for node in nodes:
                own = seen.text(node, of.key)
                if node in seen.facts and (own is not None or right):
                    diff = [*unified_diff(right, own or [], n=0, lineterm="")][2:]
                    yield (node, of.key), tuple(line[1:] for sign in "+-" for line in diff if line.startswith(sign))


def same_text(of: Difference, lines: Lines, seen: Seen) -> bool:
    """Return whether two files differ only in comments and blank lines. Of lines with a secret nobody knows."""
    if of.kind != "file" or of.value is None or of.right is None:
        return False
    known = [lines[node, of.key] for node in of.nodes if (node, of.key) in lines]
    secret = any(SECRET in (seen.text(node, of.key) or ()) for node in of.nodes)
    empty = "e3b0c44298fc" in (of.value[:12], of.right[:12])  # the sum of nothing, which comments are not
    return bool(known) and not (any(known) or secret or empty) and of.value.split()[1:] == of.right.split()[1:]
