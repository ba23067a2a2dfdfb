"""Checks that wheels answer a question: each requirement is met, and no pre-release or foreign URL came unasked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envmgr.catalog.lock_checks import LockFault, unanswered
from envmgr.catalog.locks import foreign_lock
from envmgr.errors import EnvmgrError
from envmgr.wheels.lockfile import LockedRow, LockedWheels
from envmgr.wheels.requirements import Question, read_requirement
from envmgr.wheels.target import marker_holds
from envmgr.wording import and_more

_MOST_SHOWN = 5


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


def prerelease_errors(wanted: Question, rows: Iterable[LockedRow]) -> list[EnvmgrError]:
    """Return an EnvmgrError `prerelease` if there are versions that resolve, but were probably not intended: uv takes a
    pre-release also if there is nothing else. What only packages ask for is their authors' choice.
    """
    asked = [*_readable((*wanted.requirements, *wanted.constraints))]
    meant = {canonicalize_name(read.name) for read in asked if read.specifier.prereleases or read.url}
    names = {canonicalize_name(read.name) for read in asked} - meant
    if not (
        found := [(row.name, row.version) for row in rows if row.name in names and Version(row.version).is_prerelease]
    ):
        return []
    named = [f"{name} {version}" for name, version in found]
    pins = ", ".join(f"`{name}=={version}`" for name, version in found[:_MOST_SHOWN])
    return [
        EnvmgrError(
            "prerelease",
            f"nobody asked for a pre-release, and the lock would get {and_more(named, _MOST_SHOWN)}",
            hint=f"ask for it by its version in the recipe ({pins}), or constrain it to a release",
        )
    ]


def asked_urls(rows: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Map the normalised name of each requirement `name @ URL` to the URL, and to the sha256 of the wheel there."""
    found: dict[str, tuple[str, str]] = {}
    for read in _readable(rows):
        if read.url is not None:
            url, _, sha256 = read.url.partition("#sha256=")
            found[canonicalize_name(read.name)] = url, sha256
    return found


def require_asked_urls(lock: LockedWheels, rows: Iterable[str], path: Path) -> None:
    """Raise InputError `lock-foreign` for a row with a URL that is not among the requirements."""
    asked = asked_urls(rows)
    for row in lock.rows:
        if row.url is not None and asked.get(row.name) != (row.url, row.sha256):
            raise foreign_lock(path, row.name, row.url, [url for url, _ in asked.values()])
