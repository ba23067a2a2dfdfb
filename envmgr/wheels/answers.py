"""Whether the files of a lock of wheels are some that its recipe's question can give: their platform, their times, and no traps. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from envmgr.catalog.lock_rules import UNANSWERED, LockFault
from envmgr.wheels.lock import LockedFile, LockedWheel, WheelSet
from envmgr.wheels.requirements import Question
from envmgr.wheels.target import target_tags


def faults_of_files(lock: WheelSet, wanted: Question) -> Iterator[LockFault]:
    """By what the lock says. One that another tool wrote names no uv, and says nothing of its own platform and date."""
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
        if wanted.exclude_newer and (fault := _too_new(each, wanted.exclude_newer)):
            yield fault
    asked = asked_prereleases(wanted)
    for name, version in lock.versions.items():
        if name not in asked and is_prerelease(version):
            yield LockFault(UNANSWERED, f"{name} {version} is a pre-release, and the recipe asks for none")


def asked_prereleases(wanted: Question) -> frozenset[str]:
    """The names of which the recipe asks for a pre-release by its version. uv takes one also where there is nothing else."""
    rows = (Requirement(row) for row in (*wanted.requirements, *wanted.constraints))
    return frozenset(canonicalize_name(each.name) for each in rows if each.specifier.prereleases)


def is_prerelease(version: str) -> bool:
    """Whether it is one; a text that is no version is none."""
    try:
        return Version(version).is_prerelease
    except InvalidVersion:
        return False


def _too_new(each: LockedFile, date: str) -> LockFault | None:
    """The whole day counts, in UTC. An index may tell no time. Source: uv's documentation, "Reproducible resolutions"."""
    if not each.uploaded:
        return None
    end = datetime.datetime.combine(datetime.date.fromisoformat(date), datetime.time.max, datetime.UTC)
    try:
        there = datetime.datetime.fromisoformat(each.uploaded)
    except ValueError:
        return LockFault(UNANSWERED, f"{each.file}: `uploaded` is no time")
    if there.replace(tzinfo=there.tzinfo or datetime.UTC) <= end:
        return None
    return LockFault(
        UNANSWERED, f"{each.file} was uploaded at {each.uploaded}, and the recipe says exclude_newer: {date}"
    )
