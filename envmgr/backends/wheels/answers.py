"""Whether a lock of wheels answers its recipe: as the lock says. A build looks into the files."""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.backends.wheels.input import Wanted
from envmgr.backends.wheels.lock import WheelsLock
from envmgr.catalog.lock_rules import UNANSWERED, LockFault
from envmgr.wheels.answers import faults_of_files
from envmgr.wheels.closure import faults_of as closure_faults
from envmgr.wheels.lock import LockedSdist


def faults_of(lock: WheelsLock, wanted: Wanted, python: str) -> Iterator[LockFault]:
    """`python` is the version of the Python that it stands on, whatever the lock says."""
    yield from closure_faults(wanted, lock.parts, python)
    yield from faults_of_files(lock, wanted)
    yield from _sources(lock, wanted)
    for sdist in lock.sdists:
        if sdist.asks is not None:
            asked = wanted.model_copy(update={"requirements": sdist.asks})
            yield from closure_faults(asked, sdist.parts, python, asker=f"the build of {sdist.name}")


def _sources(lock: WheelsLock, wanted: Wanted) -> Iterator[LockFault]:
    """A recipe names each package that is built from its source, and how it is patched: nothing else is built."""
    built = {sdist.name: sdist for sdist in lock.sdists}
    for name in wanted.build:
        if name not in built:
            yield LockFault(UNANSWERED, f"the recipe has {name} built from its source, the lock does not")
    for name, sdist in built.items():
        if name not in wanted.build:
            yield LockFault(
                UNANSWERED, f"the lock has {name} {sdist.version} built from its source, the recipe does not"
            )
        elif fault := _patches(sdist, wanted):
            yield fault


def _patches(sdist: LockedSdist, wanted: Wanted) -> LockFault | None:
    said = [(patch.file, patch.sha256) for patch in wanted.patches if patch.package == sdist.name]
    there = [(patch.file, patch.sha256) for patch in sdist.patches]
    if said == there:
        return None
    by_recipe, by_lock = (
        ", ".join(f"{file} {sha256[:8]}" for file, sha256 in rows) or "none" for rows in (said, there)
    )
    return LockFault(UNANSWERED, f"patches of {sdist.name}: the recipe says {by_recipe}, the lock {by_lock}")
