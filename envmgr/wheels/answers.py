"""Checks that a lock of wheels answers its question, by platform, times, hashes and indexes; `closure` checks
packages.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from envmgr.catalog.lock_rules import UNANSWERED, LockFault
from envmgr.catalog.locks import foreign_lock
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.wheels.locked import LockedFile, LockedSdist, LockedWheel, WheelSet
from envmgr.wheels.requirements import Question
from envmgr.wheels.settings import indexes_of
from envmgr.wheels.target import marker_holds, target_tags


def faults_of_files(lock: WheelSet, wanted: Question) -> Iterator[LockFault]:
    """Yield the faults of platform, date and pre-releases, by what the lock says.

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
    for name, version in _unasked_prereleases(lock.versions, wanted):
        yield LockFault(UNANSWERED, f"{name} {version} is a pre-release, and the recipe asks for none")


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
    if there.replace(tzinfo=there.tzinfo or datetime.UTC) <= end:
        return ""
    return f"{each.file} was uploaded at {each.uploaded}, and the recipe says exclude_newer: {date}"


def refuse_prereleases(wanted: Question, versions: Mapping[str, str]) -> None:
    """Raise EnvmgrError `prerelease` for a version that resolves, but was probably not intended."""
    for name, version in _unasked_prereleases(versions, wanted):
        raise EnvmgrError(
            "prerelease",
            f"{name} {version} is a pre-release, and nobody asked for one",
            hint=f"ask for it by its version in the recipe (`{name}=={version}`), or constrain it to a release",
        )


def _unasked_prereleases(versions: Mapping[str, str], wanted: Question) -> Iterator[tuple[str, str]]:
    """Yield name and version of them. uv takes a pre-release also if there is nothing else."""
    rows = [Requirement(row) for row in (*wanted.requirements, *wanted.constraints)]
    asked = {canonicalize_name(each.name) for each in rows if each.specifier.prereleases}
    yield from ((name, version) for name, version in versions.items() if name not in asked and _is_pre(version))


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
    """Raise InputError `hash-differs` for the first of a lock's files that the recipe does not name; `where` is the
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
        f"{package} has none of the hashes that the recipe's requirements say",
        context=[*(f"the recipe: sha256 {each}" for each in sorted(sums)), *(f"{where}: {each}" for each in found)],
        hint="find out which of the two is right: the index may have another file of that version, or the hash is of "
        "its source (`build` in the recipe) or of a wheel for another platform",
    )


def require_own_wheels(files: Iterable[LockedFile], names: Collection[str], site: Site, lock: Path) -> None:
    """Raise InputError `lock-foreign` for a file that comes from none of the indexes `names`.

    A file without an index must have a URL on the host of one of them or of its mirrors, or beside a folder of them.
    """
    known = indexes_of(site)
    places = {url.rstrip("/") for name in names if name in known for url in (known[name].url, *known[name].mirrors)}
    homes = {_home(place) for place in places}
    for each in files:
        url = "" if isinstance(each, LockedSdist) else each.url or ""
        at_home = any(url.startswith(f"{home}/") for home in homes) and ".." not in urlsplit(url).path.split("/")
        if each.index not in names and (each.index or not at_home):
            raise foreign_lock(lock, each.name, f"index {each.index}" if each.index else url, {*names, *places})


def _home(place: str) -> str:
    """Return `https://host:1` of `https://host:1/simple`; for a folder, the one that it lies in."""
    parts = urlsplit(place)
    return place.rpartition("/")[0] if parts.scheme == "file" else f"{parts.scheme}://{parts.netloc}"
