"""Checks that a lock of wheels answers its question: its packages, by their rows of Requires-Dist, and its platform,
times, hashes and indexes.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from envmgr.catalog.lock_rules import UNANSWERED, LockFault, closure_of, unanswered, unneeded
from envmgr.catalog.locks import foreign_lock
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.wheels.locked import Distribution, LockedFile, LockedSdist, LockedWheel, WheelSet
from envmgr.wheels.requirements import MOST_ROWS, Question, read_requirement
from envmgr.wheels.settings import home_of, indexes_of
from envmgr.wheels.target import marker_holds, target_environment, target_tags
from envmgr.wording import and_more

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]{0,200})")
_MOST_SHOWN = 5
_MOST_STEPS = 2_000_000  # some seconds; the longest locks that people make take a quarter of it
_Node = tuple[str, str]
"""A package and one of its extras; the extra is empty for what it needs in any case."""


@dataclass(frozen=True, slots=True)
class _Need:
    """One row.

    `read` is None for a row that only old tools read: only its name is known. `cost` is that of a look, in steps.
    """

    name: str
    read: Requirement | None
    cost: int

    @property
    def nodes(self) -> list[_Node]:
        extras = [] if self.read is None else sorted(self.read.extras)
        return [(self.name, ""), *((self.name, str(canonicalize_name(extra))) for extra in extras)]

    @property
    def asks_extra(self) -> bool:
        return self.read is not None and "extra" in str(self.read.marker or "")


class _TooMuch(Exception):  # noqa: N818 - the name of what happened
    """The needs take more steps to follow than anything that people make; its text is the package that is looked at."""


@dataclass(slots=True)
class _Closure:
    """The needs of `parts`, followed from roots.

    `held` are the rows of a package that count, by their place; `open` are those that might count for another extra.
    """

    parts: Mapping[str, Distribution]
    present: Mapping[str, str]
    elsewhere: bool
    environment: Mapping[str, str]
    held: dict[str, dict[int, _Need]] = field(default_factory=dict)
    open: dict[str, dict[int, _Need]] = field(default_factory=dict)
    read: dict[str, list[_Need]] = field(default_factory=dict)
    steps: int = 0

    def follow(self, node: _Node) -> list[_Node]:
        """Return the nodes of the rows that count for the node, and did not count before. Raise _TooMuch."""
        name, extra = node
        if name not in self.open:
            self.open[name], self.held[name] = dict(enumerate(self._rows(name))), {}
        rows = self.open[name]
        self._step(name, sum(need.cost for need in rows.values()))
        fresh = {place: need for place, need in rows.items() if self.counts(need, extra)}
        self.held[name] |= fresh
        self.open[name] = {place: need for place, need in rows.items() if place not in fresh and need.asks_extra}
        self._step(name, sum(len(need.nodes) for need in fresh.values()))
        return [each for need in fresh.values() for each in need.nodes]

    def counts(self, need: _Need, extra: str = "") -> bool:
        marker = None if need.read is None else need.read.marker
        return marker is None or marker.evaluate({**self.environment, "extra": extra})

    def counting(self, rows: Sequence[str]) -> list[_Need]:
        return [need for need in _needs(rows) if self.counts(need)]

    def _rows(self, name: str) -> list[_Need]:
        if name not in self.read:
            part = self.parts.get(name)
            rows = () if part is None else part.requires or ()
            if len(rows) > MOST_ROWS:
                raise _TooMuch(name)
            self._step(name, sum(10 + len(row) // 3 for row in rows))  # to read one takes far longer than to look at it
            self.read[name] = [*_needs(rows)]
        return self.read[name]

    def _step(self, name: str, count: int) -> None:
        self.steps += count
        if self.steps > _MOST_STEPS:
            raise _TooMuch(name)

    def names(self, roots: Sequence[_Need]) -> set[str]:
        """Return the names that the roots ask for, and those that these need. Raise _TooMuch."""
        return {name for name, _ in closure_of([node for need in roots for node in need.nodes], self.follow)}

    def fault(self, need: _Need, by: str) -> LockFault | None:
        if need.read is None:
            return None
        part = self.parts.get(need.name)
        version = self.present.get(need.name) if part is None else part.version
        if version is None:
            return None if self.elsewhere else unanswered(str(need.read), "", by)
        with suppress(InvalidVersion):  # the version of a conda package may be none: it says nothing for or against it
            # Without `prereleases`, packaging refuses a pre-release. Whether one may be used is checked elsewhere.
            if not need.read.specifier.contains(Version(version), prereleases=True):
                return unanswered(str(need.read), f"{need.name} {version}", by)
        return None


def closure_faults(
    wanted: Question,
    parts: Mapping[str, Distribution],
    python: str,
    *,
    present: Mapping[str, str] | None = None,
    elsewhere: bool = False,
    asker: str = "the recipe",
) -> Iterator[LockFault]:
    """Yield where `parts` (by normalised name) are not what `wanted` asks for, for a Python of the version `python`.

    `present` (name -> version) is there as well, and needs nothing. With `elsewhere`, what is missing may be there.
    If the needs of one part are unknown, a part that nothing else needs may be needed by it. `asker` is whose
    requirements they are.
    """
    try:
        yield from _faults(wanted, _closure(wanted, parts, python, present or {}, elsewhere=elsewhere), asker)
    except _TooMuch as error:
        yield LockFault(
            UNANSWERED,
            f"what {error} needs takes too long to follow: no package has so many rows and extras",
            "ask who wrote this lock or this package; another version of the package may do",
        )


def _faults(wanted: Question, closure: _Closure, asker: str) -> Iterator[LockFault]:
    """Raise _TooMuch."""
    parts = closure.parts
    roots = closure.counting(wanted.requirements)
    limits = [need for need in closure.counting(wanted.constraints) if need.name in parts]
    for need, by in (*((need, asker) for need in roots), *((need, "a constraint") for need in limits)):
        if fault := closure.fault(need, by):
            yield fault
    names = closure.names(roots)
    said: set[str] = set()
    for name in sorted(names):
        by = f"{name} {parts[name].version}" if name in parts else name
        for _, need in sorted(closure.held[name].items()):
            if (fault := closure.fault(need, by)) and fault.text not in said:
                said.add(fault.text)
                yield fault
    # A part whose needs are unknown may need any of the others.
    if not any(parts[name].requires is None for name in names if name in parts):
        yield from unneeded(((name, f"{name} {part.version}") for name, part in sorted(parts.items())), names, asker)


def needed_of(wanted: Question, parts: Mapping[str, Distribution], python: str) -> set[str]:
    """Return the names that `wanted` asks for, and those that these need.

    These are all `parts` if they take too long to follow; `closure_faults` says so.
    """
    closure = _closure(wanted, parts, python, {}, elsewhere=False)
    try:
        return closure.names(closure.counting(wanted.requirements))
    except _TooMuch:
        return {*parts}


def asks_for_all(
    wanted: Question,
    parts: Mapping[str, Distribution],
    python: str,
    kinds: Callable[[Mapping[str, str]], Collection[str]],
) -> str:
    """Return the requirement that by itself brings every kind of packages that `parts` have; empty if none does, or if
    they take too long to follow.

    `kinds` gives the kinds of packages, by their versions.
    """
    everything = {*kinds({name: part.version for name, part in parts.items()})}
    one = _closure(wanted, parts, python, {}, elsewhere=False)
    with suppress(_TooMuch):
        for row in wanted.requirements:
            one = replace(one, held={}, open={})  # what was read, and its steps, count for all
            names = one.names(one.counting((row,)))
            if {*kinds({name: part.version for name, part in parts.items() if name in names})} == everything:
                return row
    return ""


def _closure(
    wanted: Question, parts: Mapping[str, Distribution], python: str, present: Mapping[str, str], *, elsewhere: bool
) -> _Closure:
    environment = cast("dict[str, str]", target_environment(python, wanted.platform))
    return _Closure(parts, present, elsewhere, environment)


def _needs(rows: Sequence[str]) -> Iterator[_Need]:
    for row in rows:
        try:
            read = read_requirement(row)
            yield _Need(canonicalize_name(read.name), read, 1 + len(row) // 20)  # in steps of some microseconds
        except ValueError:
            if name := _NAME.match(row):
                yield _Need(canonicalize_name(name[1]), None, 1)


def faults_of_files(lock: WheelSet, wanted: Question) -> Iterator[LockFault]:
    """Yield the faults of platform and date, by what the lock says.

    Another tool's lock names no uv, and does not say its own platform and date.
    """
    if lock.uv:
        rows = (
            ("platform", lock.platform, wanted.platform),
            ("exclude_newer", lock.exclude_newer, wanted.exclude_newer),
        )
        for field, there, said in rows:
            if there != said:
                yield LockFault(
                    UNANSWERED, f"{field}: the recipe says {said or 'nothing'}, the lock {there or 'nothing'}"
                )
    tags = frozenset(target_tags(lock.python, wanted.platform))
    for each in lock.files:
        if isinstance(each, LockedWheel) and tags.isdisjoint(parse_wheel_filename(each.file)[3]):
            minor = ".".join(lock.python.split(".")[:2])
            yield LockFault(UNANSWERED, f"{each.file} is not for Python {minor} on {wanted.platform}")
        if wanted.exclude_newer and (wrong := _wrong_time(each, wanted.exclude_newer)):
            yield LockFault(UNANSWERED, wrong)


def _wrong_time(each: LockedFile, date: str) -> str:
    """Return why a file's time is wrong; empty if it is right, or the index gave none.

    The whole day counts, in UTC. Source: uv's documentation, "Reproducible resolutions".
    """
    if not each.uploaded:
        return ""
    end = datetime.datetime.combine(datetime.date.fromisoformat(date), datetime.time.max, datetime.UTC)
    try:
        there = datetime.datetime.fromisoformat(each.uploaded)
    except ValueError:
        return f"{each.file}: `uploaded` is no time"
    # `uploaded` is in UTC, also if the index leaves out the zone.
    if there.replace(tzinfo=there.tzinfo or datetime.UTC) <= end:
        return ""
    return f"{each.file} was uploaded at {each.uploaded}, and the recipe says exclude_newer: {date}"


def prerelease_faults(wanted: Question, packages: Iterable[LockedFile]) -> Iterator[LockFault]:
    """Yield a fault for each version that `prerelease_errors` speaks of."""
    each = [*packages]
    known = "nothing" if all(one.requires is not None for one in each) else "nothing that is known"
    for name, version in _unasked_prereleases(each, wanted):
        yield LockFault(UNANSWERED, f"{name} {version} is a pre-release, and {known} asks for one")


def prerelease_errors(wanted: Question, packages: Iterable[LockedFile]) -> list[EnvmgrError]:
    """Return an EnvmgrError `prerelease` if there are versions that resolve, but were probably not intended."""
    if not (found := [*_unasked_prereleases(packages, wanted)]):
        return []
    named = [f"{name} {version}" for name, version in found]
    rows = ", ".join(f"`{name}=={version}`" for name, version in found[:_MOST_SHOWN])
    return [
        EnvmgrError(
            "prerelease",
            f"nobody asked for a pre-release, and the lock would get {and_more(named, _MOST_SHOWN)}",
            hint=f"ask for it by its version in the recipe ({rows}), or constrain it to a release",
        )
    ]


def _unasked_prereleases(packages: Iterable[LockedFile], wanted: Question) -> Iterator[tuple[str, str]]:
    """Yield name and version of them. uv takes a pre-release also if there is nothing else.

    What a package of the lock asks for by its own pre-release is asked for.
    """
    each = [*packages]
    if early := {one.name: one.version for one in each if _is_pre(one.version)}:
        rows = [*wanted.requirements, *wanted.constraints, *(row for one in each for row in one.requires or ())]
        needs = [need.read for need in _needs(rows) if need.name in early and need.read is not None]
        asked = {canonicalize_name(read.name) for read in needs if read.specifier.prereleases}
        yield from ((name, version) for name, version in early.items() if name not in asked)


def _is_pre(version: str) -> bool:
    try:
        return Version(version).is_prerelease
    except InvalidVersion:
        return False


class RequiredHashes:
    """The hashes that people wrote next to requirements: a lock names one of these files, even if an index changed."""

    def __init__(self, wanted: Question, python: str) -> None:
        """Read the rows that count for the version `python`."""
        self._rows: dict[str, list[tuple[SpecifierSet, frozenset[str]]]] = {}
        for row in wanted.hashed:
            read = Requirement(row.requirement)
            if marker_holds(read.marker, python, wanted.platform):
                rows = self._rows.setdefault(canonicalize_name(read.name), [])
                rows.append((read.specifier, frozenset(row.sha256)))

    def sums(self, name: str, version: str) -> frozenset[str] | None:
        """Return the sha256 sums that a file of that version may have: those in all of its rows. None without a row."""
        found = [sums for specifier, sums in self._rows.get(name, ()) if specifier.contains(version, prereleases=True)]
        return frozenset.intersection(*found) if found else None


def require_hashes(wanted: Question, files: Iterable[LockedFile], python: str, where: object) -> None:
    """Raise InputError `hash-differs` for the first of a lock's files that the question does not name; `where` is the
    lock's.
    """
    required = RequiredHashes(wanted, python)
    for each in files:
        sums = required.sums(each.name, each.version)
        if sums is not None and each.sha256 not in sums:
            raise hash_differs(f"{each.name} {each.version}", sums, [f"{each.file}  sha256 {each.sha256}"], where)


def hash_differs(package: str, sums: Iterable[str], found: Sequence[str], where: object) -> InputError:
    """Return the error that shows both: the sums of the recipe, and the files that were `found` at `where`."""
    return InputError(
        "hash-differs",
        f"{package} has none of the hashes that the requirements say",
        context=[*(f"required: sha256 {each}" for each in sorted(sums)), *(f"{where}: {each}" for each in found)],
        hint="find out which of the two is right: the index may have another file of that version, or the hash is of "
        "its source (`build` in the recipe) or of a wheel for another platform",
    )


def require_own_wheels(files: Iterable[LockedFile], names: Collection[str], site: Site, lock: Path) -> None:
    """Raise InputError `lock-foreign` for a file that comes from none of the indexes `names`.

    A file without an index must have a URL on the host of one of them or of its mirrors, or beside a folder of them.
    """
    known = indexes_of(site)
    places = {url.rstrip("/") for name in names if name in known for url in (known[name].url, *known[name].mirrors)}
    homes = {home_of(place) for place in places}
    for each in files:
        url = "" if isinstance(each, LockedSdist) else each.url or ""
        # With `..` a URL can begin with a home and still lead elsewhere.
        at_home = any(url.startswith(f"{home}/") for home in homes) and ".." not in urlsplit(url).path.split("/")
        if each.index not in names and (each.index or not at_home):
            raise foreign_lock(lock, each.name, f"index {each.index}" if each.index else url, {*names, *places})
