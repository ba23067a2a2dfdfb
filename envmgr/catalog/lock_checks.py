"""The rules by which a lock is judged, for `lock`, `lock --check`, `check`, `build` and `publish` alike. Pure.

A lock must meet each requirement of its recipe. Whether it has all that its packages need, only a solver says.

The workers of backends read this module: it imports nothing that takes long to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from envmgr.catalog.accept import RULES, SEEN_IN_BUILDS
from envmgr.catalog.names import numbers, older
from envmgr.errors import InputError
from envmgr.wording import and_more, shortened

if TYPE_CHECKING:
    from envmgr.catalog.recipe import Recipe

EDITED = "edited"
UNANSWERED = "unanswered"
_FIXED = (EDITED, UNANSWERED)
"""Rules that no recipe can accept."""


@dataclass(frozen=True, slots=True)
class LockFault:
    """One fault of a lock. `rule` is a key of `RULES`, or `edited` or `unanswered`, which no recipe can accept.

    `mend` is what the recipe could say instead.
    """

    rule: str
    text: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class LockFacts:
    """The facts of a lock that are judged. `cuda` is its version (`12.1`): empty if the version is unknown, None
    without CUDA. `compat` is the CUDA version of its `cuda-compat` (forward compatibility), empty without one.

    `majors` maps each CUDA major version to the packages that are for it. `glibc` is what its files need. `own` are the
    faults that only the backend can see.
    """

    cuda: str | None = None
    majors: Mapping[str, Sequence[str]] | None = None
    glibc: str | None = None
    own: tuple[LockFault, ...] = ()
    compat: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """The faults of a lock. `accepted` are those that the recipe accepts, with its reasons; `unused` are rules that it
    accepts for nothing.
    """

    faults: tuple[LockFault, ...] = ()
    accepted: tuple[tuple[LockFault, str], ...] = ()
    unused: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        told = (f"accepted by the recipe: {fault.rule}: {fault.text} ({why})" for fault, why in self.accepted)
        return (*told, *(f"accept.{rule}: there is no such fault any more: take it out" for rule in self.unused))


def judge_lock(facts: LockFacts, recipe: Recipe) -> Judged:
    """Return every fault in the order of the rules, and separately those that the recipe accepts."""
    found = [*_majors(facts), *_driver(facts, recipe), *_glibc(facts, recipe), *facts.own]
    found.sort(key=lambda fault: [*_FIXED, *RULES].index(fault.rule))
    accept = recipe.accept
    return Judged(
        faults=tuple(fault for fault in found if fault.rule not in accept),
        accepted=tuple((fault, accept[fault.rule]) for fault in found if fault.rule in accept),
        unused=tuple(sorted((accept.keys() & RULES.keys()) - {fault.rule for fault in found} - SEEN_IN_BUILDS)),
    )


def lock_contradicts(entry: object, judged: Judged) -> InputError:
    """Return the error `lock-contradicts` for a lock that has faults."""
    mends = dict.fromkeys(fault.mend for fault in judged.faults if fault.mend and fault.rule in RULES)
    rules = [rule for rule in dict.fromkeys(fault.rule for fault in judged.faults) if rule in RULES]
    ways = [*mends]
    if any(fault.rule in _FIXED for fault in judged.faults):
        ways.append(f"`envmgr lock {entry}` writes it again")
    if rules:
        ways.append(f"or accept it in recipe.yaml, with the reason: `accept: {{{rules[0]}: why}}`")
    return InputError(
        "lock-contradicts",
        f"the lock of {entry} contradicts itself, or its recipe",
        context=shortened([f"{fault.rule}: {fault.text}" for fault in judged.faults]),
        hint="\n  ".join(shortened(ways)),
    )


def _majors(facts: LockFacts) -> list[LockFault]:
    majors = facts.majors or {}
    if len(majors) < 2:
        return []
    told = "; ".join(f"CUDA {major}: {and_more(majors[major], 4)}" for major in sorted(majors, key=int))
    mend = "each process loads one CUDA: constrain its packages to one major, or make two entries"
    return [LockFault("cuda-majors", told, mend)]


def _driver(facts: LockFacts, recipe: Recipe) -> list[LockFault]:
    """Judge the driver by the newest CUDA version that a package is for."""
    from envmgr.catalog.gpus import driver_faults, minimum_driver  # takes long to load

    majors = sorted(facts.majors or {}, key=int)
    cuda = facts.cuda
    if majors and next(iter(numbers(cuda or "")), 0) < int(majors[-1]):
        cuda = majors[-1]
    if cuda is None:
        return []
    needed = minimum_driver(cuda)
    line = f'requires: {{nvidia_driver: "{needed}"}}' if needed else "requires.nvidia_driver"
    mend = f"`{line}` in recipe.yaml"
    return [LockFault("cuda-driver", text, mend) for text in driver_faults(cuda, recipe.requires.nvidia_driver)]


def _glibc(facts: LockFacts, recipe: Recipe) -> list[LockFault]:
    required = recipe.requires.glibc
    if not (facts.glibc and required and older(required, facts.glibc)):
        return []
    text = f"requires.glibc: the wheels need >= {facts.glibc}, the recipe says {required}"
    return [LockFault("glibc-floor", text, f'`requires: {{glibc: "{facts.glibc}"}}` in recipe.yaml')]


Node = TypeVar("Node")


def closure_of(roots: Iterable[Node], needs: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """Return the roots and everything that they need, directly or indirectly, each once."""
    found = {*roots}
    waiting = [*found]
    while waiting:
        fresh = {*needs(waiting.pop())} - found
        found |= fresh
        waiting += fresh
    return found


def unanswered(wanted: str, there: str, by: str = "the recipe") -> LockFault:
    """Return the fault that `by` needs `wanted` while the lock has `there` in its place; `there` is empty if the lock
    has nothing.
    """
    said = f"the lock has {there}" if there else "which the lock lacks"
    return LockFault(UNANSWERED, f"{by} needs `{wanted}`, {said}")
