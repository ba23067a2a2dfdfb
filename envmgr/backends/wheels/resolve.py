"""From a recipe to its lock: first the packages that are built from source, then the wheels beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from envmgr.backends.wheels.base import Base
from envmgr.backends.wheels.input import Wanted
from envmgr.backends.wheels.lock import WheelsLock
from envmgr.catalog.site import Site
from envmgr.errors import InputError
from envmgr.report import Reporter
from envmgr.system.run import Runner
from envmgr.wheels.held import require_hashes
from envmgr.wheels.lock import LockedSdist
from envmgr.wheels.resolve import ask_indexes, find_lacking, refuse_traps


def resolve(
    wanted: Wanted, base: Base, folder: Path, site: Site, runner: Runner, reporter: Reporter, places: Mapping[str, str]
) -> WheelsLock:
    """Resolve for the Python of `base`. `folder` is the recipe's. `places` maps index -> URL or folder to ask instead, this once.

    Raises:
        EnvmgrError: as `find_lacking`, `refuse_traps` and `lock_sources`; InputError `build-unasked`, `hash-differs`.
    """
    python = base.version
    with (
        ask_indexes(wanted, python, site, runner, reporter, places) as asking,
        reporter.stage("resolve", unit="packages") as stage,
    ):
        sdists: tuple[LockedSdist, ...] = ()
        if wanted.build:
            from envmgr.backends.wheels.source.locking import lock_sources

            sdists = lock_sources(wanted, base, folder, asking, site, runner, reporter)
        found, used = find_lacking(asking, stage, builds=True)
        _refuse_unasked(wanted, used)
        lock = WheelsLock(recipe_digest=wanted.digest(), sdists=sdists, **dict(found))
        require_hashes(wanted, lock.files, lock.python, "the index")
        refuse_traps(wanted, lock.versions)
    return lock


def _refuse_unasked(wanted: Wanted, used: Collection[str]) -> None:
    if unasked := [name for name in wanted.build if name not in used]:
        raise InputError(
            "build-unasked",
            f"input.build names {', '.join(unasked)}, which nothing asks for",
            hint="add it to `requirements`, or take it out of `build`",
        )
