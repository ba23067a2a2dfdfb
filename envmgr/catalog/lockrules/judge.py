"""What a careful reader would find wrong with a lock: what contradicts in itself, or what its recipe leaves unsaid. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envmgr.catalog.cuda import driver_faults, minimum_driver
from envmgr.catalog.lockrules.rules import FILE_NEEDS, HIDDEN, RULES
from envmgr.catalog.versions import numbers, older
from envmgr.errors import InputError
from envmgr.wording import and_more, shortened

if TYPE_CHECKING:
    from envmgr.catalog.recipe import Recipe

EDITED = "edited"
UNANSWERED = "unanswered"
_FIXED = (EDITED, UNANSWERED)
"""Rules that no recipe can accept."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`rule` is a key of `RULES`, or `edited` or `unanswered`, which no recipe can accept. `mend` is what the recipe could say instead."""

    rule: str
    text: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class LockFacts:
    """What of a lock is judged. `cuda` is its version (`12.1`): empty where it has CUDA of an unknown version, None without.

    `majors` maps each major of CUDA to the packages that are for it. `glibc` is what its files need. `own` are the faults that only its backend
    can see.
    """

    cuda: str | None = None
    majors: Mapping[str, Sequence[str]] | None = None
    glibc: str | None = None
    own: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """`accepted` are faults that the recipe accepts, with its reasons; `unused` are rules that it accepts for nothing."""

    faults: tuple[Fault, ...] = ()
    accepted: tuple[tuple[Fault, str], ...] = ()
    unused: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        told = (f"accepted by the recipe: {fault.rule}: {fault.text} ({why})" for fault, why in self.accepted)
        return (*told, *(f"accept.{rule}: there is no such fault any more: take it out" for rule in self.unused))


def judge(facts: LockFacts, recipe: Recipe) -> Judged:
    """Every fault, in the order of the rules, and those that the recipe accepts apart."""
    found = [*_majors(facts), *_driver(facts, recipe), *_glibc(facts, recipe), *facts.own]
    found.sort(key=lambda fault: [*_FIXED, *RULES].index(fault.rule))
    accept = recipe.accept
    return Judged(
        faults=tuple(fault for fault in found if fault.rule not in accept),
        accepted=tuple((fault, accept[fault.rule]) for fault in found if fault.rule in accept),
        unused=tuple(sorted((accept.keys() & RULES.keys()) - {fault.rule for fault in found} - {FILE_NEEDS, HIDDEN})),
    )


def refusal(entry: object, judged: Judged) -> InputError:
    """`lock-contradicts`, for a lock that has faults."""
    mends = dict.fromkeys(fault.mend for fault in judged.faults if fault.mend and fault.rule in RULES)
    rules = [rule for rule in dict.fromkeys(fault.rule for fault in judged.faults) if rule in RULES]
    ways = [*mends, *([f"`envmgr lock {entry}` writes it anew"] if {*_FIXED} & {f.rule for f in judged.faults} else [])]
    if rules:
        ways.append(f"or accept it in recipe.yaml, with the reason: `accept: {{{rules[0]}: why}}`")
    return InputError(
        "lock-contradicts",
        f"the lock of {entry} contradicts itself, or its recipe",
        context=shortened([f"{fault.rule}: {fault.text}" for fault in judged.faults]),
        hint="\n  ".join(shortened(ways)),
    )


def _majors(facts: LockFacts) -> list[Fault]:
    majors = facts.majors or {}
    if len(majors) < 2:
        return []
    told = "; ".join(f"CUDA {major}: {and_more(names, 4)}" for major, names in sorted(majors.items(), key=_number))
    mend = "each process loads one CUDA: constrain its packages to one major, or make two entries"
    return [Fault("cuda-majors", told, mend)]


def _number(row: tuple[str, object]) -> int:
    return int(row[0])


def _driver(facts: LockFacts, recipe: Recipe) -> list[Fault]:
    """By the newest CUDA that anything in it is for."""
    majors = sorted(facts.majors or {}, key=int)
    cuda = facts.cuda
    if majors and next(iter(numbers(cuda or "")), 0) < int(majors[-1]):
        cuda = majors[-1]
    if cuda is None:
        return []
    needed = minimum_driver(cuda)
    mend = (
        f'`requires: {{nvidia_driver: "{needed}"}}` in recipe.yaml'
        if needed
        else "`requires.nvidia_driver` in recipe.yaml"
    )
    return [Fault("cuda-driver", text, mend) for text in driver_faults(cuda, recipe.requires.nvidia_driver)]


def _glibc(facts: LockFacts, recipe: Recipe) -> list[Fault]:
    required = recipe.requires.glibc
    if not (facts.glibc and required and older(required, facts.glibc)):
        return []
    text = f"requires.glibc: the wheels need >= {facts.glibc}, the recipe says {required}"
    return [Fault("glibc-floor", text, f'`requires: {{glibc: "{facts.glibc}"}}` in recipe.yaml')]
