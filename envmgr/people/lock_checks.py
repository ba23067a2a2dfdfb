"""Checks of a user environment's lock before anything is installed by it: somebody else may have written it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from envmgr.catalog.locks import foreign_lock
from envmgr.catalog.site import Site
from envmgr.errors import InputError
from envmgr.people.base import BaseEntry
from envmgr.people.lock import UserLock
from envmgr.people.solve import question_of
from envmgr.people.wishes import unchanged
from envmgr.wheels.lock_checks import require_asked_urls, unmet_requirements

_MOST = 20


def require_sound(lock: UserLock, base: BaseEntry, site: Site, path: Path) -> None:
    """Refuse a lock that says other than its requirements ask for on the entry, or names files of no index of the site.

    Raises:
        InputError: `lock-invalid`, `lock-foreign`.
    """
    wanted = question_of(unchanged(lock), site)
    versions = {name: package.version for name, package in base.packages.items()} | lock.versions
    unmet = unmet_requirements(wanted.requirements, versions, base.version, wanted.platform, "what was asked for")
    if faults := [*_faults(lock, base), *(fault.text for fault in unmet)]:
        raise InputError(
            "lock-invalid",
            f"{path} is no lock that envmgr would write; nothing was installed",
            context=faults[:_MOST],
            hint="ask its author to export it again: `envmgr user export NAME`",
        )
    require_asked_urls(lock.wheels, wanted.requirements, path)
    for name in lock.wheels.indexes:
        if name not in wanted.indexes:
            raise foreign_lock(path, "a package", f"index {name}", wanted.indexes)


def _faults(lock: UserLock, base: BaseEntry) -> Iterator[str]:
    if lock.wheels.python != base.version:
        yield f"it is for Python {lock.wheels.python}, and {base.entry} has {base.version}"
    for name in lock.versions:
        if name in base.packages and name not in lock.replaced:
            yield f"{name} would take the place of that of {base.entry}, and the lock does not say so"
