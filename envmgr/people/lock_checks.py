"""Checks of a user environment's lock before anything is installed by it: somebody else may have written it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import parse_wheel_filename

from envmgr.catalog.site import Site
from envmgr.errors import InputError
from envmgr.people.base import Base
from envmgr.people.lock import UserLock
from envmgr.people.solve import question_of
from envmgr.people.wishes import unchanged
from envmgr.wheels.answers import require_own_wheels, unmet_requirements
from envmgr.wheels.target import target_tags

_MOST = 20


def require_sound(lock: UserLock, base: Base, site: Site, path: Path) -> None:
    """Refuse a lock that says other than its requirements ask for on the entry, or names files of no index of the site.

    Raises:
        InputError: `lock-invalid`, `lock-foreign`.
    """
    if faults := [*_faults_of_files(lock, base, site)]:
        raise _invalid(path, faults)
    wanted = question_of(unchanged(lock), site)
    require_own_wheels(lock.wheels.wheels, wanted.indexes, site, path)
    versions = {name: package.version for name, package in base.packages.items()} | lock.versions
    unmet = unmet_requirements(wanted.requirements, versions, base.version, wanted.platform, "what was asked for")
    if faults := [fault.text for fault in unmet]:
        raise _invalid(path, faults)


def _faults_of_files(lock: UserLock, base: Base, site: Site) -> Iterator[str]:
    wheels = lock.wheels.wheels
    if lock.wheels.python != base.version:
        yield f"it is for Python {lock.wheels.python}, and {base.entry} has {base.version}"
    yield from (
        f"{name} is in it {times} times" for name, times in Counter(w.name for w in wheels).items() if times > 1
    )
    tags = frozenset(target_tags(base.version, question_of(unchanged(lock), site).platform))
    for wheel in wheels:
        if not wheel.named_rightly:
            yield f"{wheel.file} is no file of {wheel.name} {wheel.version}"
        elif tags.isdisjoint(parse_wheel_filename(wheel.file)[3]):
            yield f"{wheel.file} is not for Python {base.minor} on this host"
        if wheel.name in base.packages and wheel.name not in lock.replaced:
            yield f"{wheel.name} would take the place of that of {base.entry}, and the lock does not say so"


def _invalid(path: Path, faults: list[str]) -> InputError:
    return InputError(
        "lock-invalid",
        f"{path} is no lock that envmgr would write; nothing was installed",
        context=faults[:_MOST],
        hint="ask its author to export it again: `envmgr user export NAME`",
    )
