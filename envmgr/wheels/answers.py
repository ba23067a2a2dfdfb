"""Checks that wheels answer a question: each requirement is met, and no pre-release or foreign file came unasked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envmgr.catalog.lock_rules import LockFault, closure_of, unanswered
from envmgr.catalog.locks import foreign_lock
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.wheels.locked import Distribution, LockedFile, LockedSdist
from envmgr.wheels.requirements import Question, read_requirement
from envmgr.wheels.settings import home_of, indexes_of
from envmgr.wheels.target import marker_holds, target_environment
from envmgr.wording import and_more

_MOST_SHOWN = 5
_Node = tuple[str, str]
"""A package and one of its extras; the extra is empty for what it needs in any case."""


def unmet_requirements(
    rows: Iterable[str], versions: Mapping[str, str], python: str, platform: str, asker: str = "the recipe"
) -> Iterator[LockFault]:
    """Yield a fault for each requirement that no version meets; `versions` are by normalised name, `python` is a
    version, and `asker` is whose requirements they are. Rows that cannot be read are left out.
    """
    for read in _readable(rows):
        if not marker_holds(read.marker, python, platform):
            continue
        name = canonicalize_name(read.name)
        if (version := versions.get(name)) is None:
            yield unanswered(str(read), "", asker)
            continue
        with suppress(InvalidVersion):  # the version of a conda package may be none: it says nothing for or against it
            # Without `prereleases`, packaging refuses a pre-release. Whether one may be used is checked elsewhere.
            if not read.specifier.contains(Version(version), prereleases=True):
                yield unanswered(str(read), f"{name} {version}", asker)


def _readable(rows: Iterable[str]) -> Iterator[Requirement]:
    for row in rows:
        with suppress(ValueError):  # some rows of Requires-Dist only old tools read
            yield read_requirement(row)


def named(name: str, rows: Iterable[str]) -> list[str]:
    """Return the rows that ask for the package of this normalised name."""
    return [str(read) for read in _readable(rows) if canonicalize_name(read.name) == name]


def needed_of(wanted: Question, parts: Mapping[str, Distribution], python: str) -> set[str]:
    """Return the names that `wanted` asks for, and those that these need; `parts` are by normalised name."""
    environment = cast("dict[str, str]", target_environment(python, wanted.platform))

    def nodes(rows: Iterable[str], extra: str) -> Iterator[_Node]:
        for read in _readable(rows):
            if read.marker is None or read.marker.evaluate({**environment, "extra": extra}):
                name = canonicalize_name(read.name)
                yield from ((name, each) for each in ("", *map(canonicalize_name, read.extras)))

    def needs(node: _Node) -> Iterator[_Node]:
        name, extra = node
        return nodes(parts[name].requires or () if name in parts else (), extra)

    return {name for name, _ in closure_of(nodes(wanted.requirements, ""), needs)}


def asks_for_all(
    wanted: Question,
    parts: Mapping[str, Distribution],
    python: str,
    kinds: Callable[[Mapping[str, str]], Collection[str]],
) -> str:
    """Return the requirement that by itself brings every kind of packages that `parts` have; empty if none does.

    `kinds` gives the kinds of packages, by their versions.
    """
    everything = {*kinds({name: part.version for name, part in parts.items()})}
    for row in wanted.requirements:
        names = needed_of(wanted.model_copy(update={"requirements": (row,)}), parts, python)
        if {*kinds({name: part.version for name, part in parts.items() if name in names})} == everything:
            return row
    return ""


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
        asked = {canonicalize_name(read.name) for read in _readable(rows) if read.specifier.prereleases}
        yield from ((name, version) for name, version in early.items() if name not in asked)


def _is_pre(version: str) -> bool:
    try:
        return Version(version).is_prerelease
    except InvalidVersion:
        return False


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
