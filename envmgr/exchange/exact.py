"""The exact packages of an entry's lock, for formats that write them."""

from __future__ import annotations

from envmgr.backends import LoadedLock
from envmgr.backends.conda.backend import LoadedCondaLock
from envmgr.backends.wheels.backend import LoadedWheelsLock
from envmgr.catalog.site import Site
from envmgr.errors import InputError
from envmgr.exchange import Exact
from envmgr.system.run import Runner
from envmgr.wheels.fetch import locate_rows, places_of
from envmgr.wheels.locked import LockedWheel


def exact_of(lock: LoadedLock, site: Site, runner: Runner) -> Exact:
    """Return the packages. Raise InputError `export-impossible` for an entry of a backend without such packages."""
    if isinstance(lock, LoadedCondaLock):
        added = lock.content.added
        python, rows, indexes = ("", (), ()) if added is None else (added.python, added.rows, added.indexes)
    elif isinstance(lock, LoadedWheelsLock):
        own = lock.content.wheels
        python, rows, indexes = own.python, own.rows, own.indexes
    else:
        raise InputError(
            "export-impossible",
            f"{lock.entry} is made by the backend `{lock.backend.name}`: no other tool's lock has such packages",
            hint="entries of conda packages and of wheels can be written for other tools",
        )
    files = locate_rows(rows, indexes, site, runner)
    wheels = [
        LockedWheel(name=row.name, version=row.version, file=files[row.sha256].file, sha256=row.sha256, index="")
        for row in rows
    ]
    return Exact(
        entry=str(lock.entry),
        python=python,
        conda=lock.content if isinstance(lock, LoadedCondaLock) else None,
        wheels=tuple(wheels),
        urls=lambda: {sha256: each.url for sha256, each in files.items()},
        indexes=tuple(place.url for place in places_of(indexes, site, runner)),
    )
