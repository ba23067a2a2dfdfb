"""The exact packages of an entry's lock, for formats that write them."""

from __future__ import annotations

from functools import partial

from envmgr.backends import LoadedLock
from envmgr.backends.conda.backend import LoadedCondaLock
from envmgr.backends.wheels.backend import LoadedWheelsLock
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.exchange import ExactPackages
from envmgr.system.run import Runner
from envmgr.wheels.fetch import locate_rows, places_of
from envmgr.wheels.index import ListedFile
from envmgr.wheels.lockfile import LockedWheels


def exact_of(lock: LoadedLock, site: Site, runner: Runner) -> ExactPackages:
    """Return the packages. Raise InputError `export-impossible` for an entry of a backend without such packages."""
    conda = lock.content if isinstance(lock, LoadedCondaLock) else None
    own: LockedWheels | None
    if conda is not None:
        own = conda.added
    elif isinstance(lock, LoadedWheelsLock):
        own = lock.content.wheels
    else:
        raise InputError(
            "export-impossible",
            f"{lock.entry} is made by the backend `{lock.backend.name}`: no other tool's lock has such packages",
            hint="entries of conda packages and of wheels can be written for other tools",
        )
    return ExactPackages(
        entry=str(lock.entry),
        python="" if own is None else own.python,
        conda=conda,
        wheels=() if own is None else own.rows,
        files=dict if own is None else partial(_files, own, site, runner),
        indexes=lambda: [] if own is None else [each.url for each in places_of(own.indexes, site, runner)],
    )


def _files(own: LockedWheels, site: Site, runner: Runner) -> dict[str, ListedFile]:
    """Return the files of a lock by their sha256. Raise EnvmgrError `not-found` if no index has one today."""
    found = locate_rows(own.rows, own.indexes, site, runner)
    if lacking := [f"{row.name} {row.version}  sha256 {row.sha256}" for row in own.rows if row.sha256 not in found]:
        raise EnvmgrError(
            "not-found",
            f"the lock has no URLs of wheels, and no index of {', '.join(own.indexes)} gives them",
            context=lacking[:10],
            hint="ask on a machine that reaches the index, or write `--to requirements`, which has no URLs",
        )
    return found
