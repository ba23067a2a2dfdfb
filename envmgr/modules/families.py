"""Families: Lmod keeps one module of each loaded, and the next one replaces it. Decides which modules belong to which
family, and which refuse which. Pure.

Lmod 8.6.19 cannot load a module together with a dependency of the same family: depending on the order of the lines it
keeps both, or loads them in turn until its stack overflows. It also fails at a module that depends on two modules of
one family. So a load brings at most one member of each family, however the recipes are put together.

Lmod asks only the module that is loaded last what it conflicts with: the other one must name the conflict, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envmgr.modules.spec import ModuleSpec

PYTHON = "python"  # what an entry with a `bin/python` is of by default


@dataclass(frozen=True, slots=True)
class Member:
    """The facts that decide an entry's families: those that its recipe names (None if it names none), whether its
    install has a Python, and its dependencies; and the names and entries that it conflicts with.
    """

    named: tuple[str, ...] | None
    python: bool
    depends: tuple[str, ...]
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Families:
    """The families of a module. `own` are those that the module names; `replaces` also has those of everything that it
    loads. `conflicts` are the entries whose recipes say that they conflict with it.
    """

    own: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


NO_FAMILIES = Families()


@dataclass(frozen=True, slots=True)
class Clash:
    """A load of `entry` brings two or more `members` of one `family`; of one name, if `family` is empty.

    `certain`: recipes name the family, so Lmod cannot keep them all. Otherwise each brings a Python, and is in no
    family because of that.
    """

    entry: str
    family: str
    members: tuple[str, ...]
    certain: bool


def member_of(spec: ModuleSpec) -> Member:
    return Member(spec.families, spec.own_python, spec.depends, spec.conflicts)


def find_families(members: Mapping[str, Member]) -> dict[str, Families]:
    """Map each entry to its families, among all entries that can be loaded together.

    A family that a dependency also has is left to the dependency. By default an entry that brings a Python is of family
    python, unless a dependency brings one, or another entry is loaded with it and another Python.
    """
    below = _below(members)
    own = _candidates(members, below)
    for entry in members:
        holders = [e for e in _loaded(entry, below) if PYTHON in own[e]]
        if len(holders) > 1:
            own |= {e: () for e in holders if members[e].named is None}
    foes: dict[str, list[str]] = defaultdict(list)  # name or entry -> those that conflict with it
    for entry in sorted(members):
        for foe in members[entry].conflicts:
            foes[foe].append(entry)
    return {
        entry: Families(
            own[entry],
            tuple(sorted({f for e in _loaded(entry, below) for f in own[e]})),
            tuple(foe for foe in dict.fromkeys((*foes[entry.partition("/")[0]], *foes[entry])) if foe != entry),
        )
        for entry in members
    }


def find_clashes(members: Mapping[str, Member]) -> list[Clash]:
    """Return the families of recipes that cannot hold. If several entries load the same members, only those that do so
    directly count.
    """
    below = _below(members)
    own = _candidates(members, below)
    found = []
    for entry in sorted(members):
        by_name: dict[str, list[str]] = defaultdict(list)
        by_family: dict[str, list[str]] = defaultdict(list)
        for each in _loaded(entry, below):
            by_name[each.partition("/")[0]].append(each)
            for family in dict.fromkeys((*own[each], *(members[each].named or ()))):
                by_family[family].append(each)
        through = [{*_loaded(d, below)} for d in members[entry].depends if d in members]
        kinds = [("", holders) for holders in by_name.values()]
        kinds += [pair for pair in sorted(by_family.items()) if pair[1] not in by_name.values()]
        for family, holders in kinds:
            if len(holders) > 1 and not any(set(holders) <= others for others in through):
                named = len([e for e in holders if family in (members[e].named or ())])
                certain = not family or named > 1 or entry in holders
                found.append(Clash(entry, family, tuple(sorted(holders)), certain))
    return found


def _candidates(members: Mapping[str, Member], below: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return entry -> its families, looking only at what it depends on."""
    named = {entry: {f for e in below[entry] for f in members[e].named or ()} for entry in members}
    by_default = {
        entry
        for entry, member in members.items()
        if member.named is None
        and member.python
        and PYTHON not in named[entry]
        and not any(members[e].python for e in below[entry])
    }
    own = {}
    for entry, member in members.items():
        taken = named[entry] | ({PYTHON} if by_default.intersection(below[entry]) else set())
        own[entry] = tuple(family for family in member.named or () if family not in taken)
    return own | dict.fromkeys(by_default, (PYTHON,))


def _below(members: Mapping[str, Member]) -> dict[str, tuple[str, ...]]:
    """Return entry -> everything that it depends on, directly or indirectly; entries outside `members` are skipped."""

    def reach(entry: str) -> Iterator[str]:
        waiting, seen = list(members[entry].depends), {entry}
        while waiting:
            each = waiting.pop(0)
            if each in members and each not in seen:
                seen.add(each)
                waiting += members[each].depends
                yield each

    return {entry: tuple(reach(entry)) for entry in members}


def _loaded(entry: str, below: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return (entry, *below[entry])
