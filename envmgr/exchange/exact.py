"""The exact packages of an entry's lock, for formats that write them."""

from __future__ import annotations

from collections.abc import Sequence

from envmgr.backends import LoadedLock
from envmgr.backends.conda.backend import LoadedCondaLock
from envmgr.backends.wheels.backend import LoadedWheelsLock
from envmgr.catalog.site import Site
from envmgr.errors import InputError
from envmgr.exchange import Exact
from envmgr.system.run import Runner
from envmgr.wheels.locked import LockedFile, LockedWheel, WheelSet
from envmgr.wheels.settings import indexes_of


def exact_of(lock: LoadedLock, site: Site, runner: Runner) -> Exact:
    """Return the packages. Raise InputError `export-impossible` for an entry of a backend without such packages."""
    own: WheelSet | None
    if isinstance(lock, LoadedCondaLock):
        own, files = lock.content.added, lock.content.added.packages if lock.content.added else ()
    elif isinstance(lock, LoadedWheelsLock):
        own, files = lock.content, lock.content.packages
    else:
        raise InputError(
            "export-impossible",
            f"{lock.entry} is made by the backend `{lock.backend.name}`: no other tool's lock has such packages",
            hint="entries of conda packages and of wheels can be written for other tools",
        )
    return Exact(
        entry=str(lock.entry),
        python="" if own is None else own.python,
        conda=lock.content if isinstance(lock, LoadedCondaLock) else None,
        wheels=tuple(files),
        urls=lambda: {} if own is None else _urls(own, files, str(lock.entry), site, runner),
        indexes=tuple(dict.fromkeys(indexes_of(site)[each.index].url for each in files if each.index)),
    )


def _urls(own: WheelSet, files: Sequence[LockedFile], label: str, site: Site, runner: Runner) -> dict[str, str]:
    """Return the URLs that the lock names, and those that the indexes have today for other files. Raise EnvmgrError if an
    index does not answer, or no longer has a file.
    """
    from envmgr.wheels.fetch import locate_files

    urls = {each.sha256: each.url for each in files if isinstance(each, LockedWheel) and each.url}
    known = {sha256: url for sha256, url in urls.items() if "://" in url}
    unknown = [each for each in files if each.sha256 not in known]
    return known | (locate_files(unknown, own, label, site, runner) if unknown else {})
