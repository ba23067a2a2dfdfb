"""What an audit's report is worth on drifts that were put, whatever its checks are called: by what each cause names, and by nodes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Literal

from ClusterShell.NodeSet import NodeSetParseError

from envmgr.nodes.sets import expand

# Of a cause: what follows from it is not what it names.
_APART = ("consequences", "nodes")


@dataclass(frozen=True)
class Expected:
    """A drift for a report to name on `nodes`: each of `names` does, all words of it or one of those with `|` between. Users notice it on `harmed`.

    `also` are those of its nodes of which an audit need not say it: the host from which it asks, of what all have. These may stand for all
    where it lies on them alone (`there`): its jobs take it along.
    """

    names: tuple[str, ...]
    nodes: frozenset[str]
    harmed: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    there: bool = False

    def is_named(self, finding: Mapping[str, Any]) -> bool:
        text = " ".join(_texts(finding))
        return any(all(_has(text, word) for word in name.split()) for name in self.names)

    def is_right(self, cause: Mapping[str, Any]) -> bool:
        """Named on exactly its nodes, and no mere note if it harms."""
        exact = self.nodes - self.also <= _nodes(cause) <= self.nodes
        exact = exact or (self.there and _nodes(cause) == self.also)
        return exact and self.is_named(cause) and not (self.harmed and cause["severity"] == "note")


@dataclass(frozen=True)
class Verdict:
    """`why` has what is not right; on the nodes of `hidden` users notice something, and no line names them."""

    said: Literal["right", "badly", "missed"]
    why: tuple[str, ...]
    hidden: frozenset[str]


def judged(result: Mapping[str, Any], put: Sequence[Expected], healthy: Collection[str] = ()) -> Verdict:
    """`result` is an audit's, with `causes` and all `findings`; `healthy` are the lines that it has without a drift."""
    causes = [cause for cause in result["causes"] if line(cause) not in healthy]
    first, rest = causes[: len(put)], causes[len(put) :]
    named = [of for of in put if any(of.is_named(each) or _nodes(each) & of.nodes for each in causes)]
    why = [
        f"not named: {of.names[0]} on {','.join(sorted(of.nodes))}" for of in put if not any(map(of.is_right, first))
    ]
    matched = len(first) == len(put) and any(
        all(of.is_right(cause) for of, cause in zip(put, order, strict=True)) for order in permutations(first)
    )
    accused = [] if matched else [cause for cause in first if not any(of.is_right(cause) for of in put)]
    accused += [cause for cause in rest if not any(of.is_named(cause) and _nodes(cause) <= of.nodes for of in put)]
    why += [f"accused: {line(cause)}" for cause in accused if cause["severity"] != "note"]
    harmed = {node for of in put for node in of.harmed - of.also}
    said = {node for finding in result["findings"] if line(finding) not in healthy for node in _all_nodes(finding)}
    right = matched and not any(each.startswith("accused") for each in why)
    return Verdict("right" if right else "badly" if named else "missed", tuple(why), frozenset(harmed - said))


def still_told(
    of: Expected, cause: Mapping[str, Any], result: Mapping[str, Any], healthy: Collection[str] = ()
) -> list[str]:
    """The errors and warnings that name it on nodes of the cause whose hint was followed."""
    found = (f for f in result["findings"] if f["severity"] != "note" and line(f) not in healthy)
    return [line(finding) for finding in found if of.is_named(finding) and _nodes(finding) & of.nodes & _nodes(cause)]


def line(finding: Mapping[str, Any]) -> str:
    return " ".join(str(finding[key]) for key in ("severity", "nodes", "where", "found"))[:200]


def _has(text: str, word: str) -> bool:
    """Whether one of the words is there by itself: a path is not named by one below it, unless it ends in `…`. Homes may be `~`."""
    alternatives = "|".join(map(_pattern, word.replace("/home/alice/", "~/").split("|")))
    return bool(re.search(alternatives, re.sub(r"/home/alice/|~alice/", "~/", text), re.IGNORECASE))


def _pattern(word: str) -> str:
    begins = "" if word.startswith("…") else r"(?<![\w/.-])"
    ends = "" if word.endswith("…") else r"(?![\w/-]|\.\w)"
    return f"{begins}{re.escape(word.strip('…'))}{ends}"


def _texts(value: Any) -> Iterator[str]:
    """All that it says, by whatever keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for key, each in value.items() if key not in _APART for text in _texts(each))
    elif isinstance(value, list | tuple):
        yield from (text for each in value for text in _texts(each))


def _nodes(finding: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(expand(finding["nodes"])) if finding["nodes"] else frozenset()


def _all_nodes(finding: Mapping[str, Any]) -> Iterator[str]:
    """Also those of `on NODES` in its words: where nodes differ and none is right, no node is accused."""
    yield from _nodes(finding)
    for nodes in re.findall(r"\bon ((?:[\w-]+(?:\[[\d,-]+\])?,?)+)", " ".join(_texts(finding))):
        with suppress(NodeSetParseError):
            yield from expand(nodes.rstrip(","))
