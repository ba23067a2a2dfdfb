"""Whether a lock answers its recipe: nothing that is needed is missing, and nothing is there that nothing needs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from envmgr.catalog.lockrules.judge import UNANSWERED, Fault

Node = TypeVar("Node")


def reached(roots: Iterable[Node], needs: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """The roots, and everything that these need, directly or not. Each waits once, however many need it."""
    found = {*roots}
    waiting = [*found]
    while waiting:
        fresh = {*needs(waiting.pop())} - found
        found |= fresh
        waiting += fresh
    return found


def unneeded(packages: Iterable[tuple[str, str]], needed: Iterable[str], asker: str = "the recipe") -> Iterator[Fault]:
    """A fault for each of the packages (name, and how people know it) that is not among the needed names. `asker` is who wants them."""
    known = {*needed}
    for name, shown in packages:
        if name not in known:
            yield Fault(UNANSWERED, f"{shown} is in the lock, and neither {asker} nor another package needs it")


def unanswered(wanted: str, there: str, by: str = "the recipe") -> Fault:
    """What `by` asks for, and the package that the lock has in its place; empty where it has none."""
    said = f"the lock has {there}" if there else "which the lock lacks"
    return Fault(UNANSWERED, f"{by} needs `{wanted}`, {said}")
