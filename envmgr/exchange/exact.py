"""The exact packages of an entry's lock, for formats that write them."""

from __future__ import annotations

from envmgr.backends import LoadedLock
from envmgr.backends.conda.backend import LoadedCondaLock
from envmgr.backends.wheels.backend import LoadedWheelsLock
from envmgr.catalog.site import Site
from envmgr.errors import InputError
from envmgr.exchange import Exact
from envmgr.system.run import Runner
from envmgr.wheels.locked import LockedFile, LockedWheel, WheelSet
from envmgr.wheels.settings import indexes_of


def exact_of(lock: LoadedLock, site: Site, runner: Runner, *, places: bool) -> Exact:
    """Return the packages; with `places`, indexes are asked for the URLs of wheels that the lock does not name.

    Raises:
        InputError: `export-impossible` for an entry that is built from easyconfigs.
        EnvmgrError: an index does not answer, or no longer has a file.
    """
    own: WheelSet | None
    if isinstance(lock, LoadedCondaLock):
        own, files = lock.content.added, lock.content.added.packages if lock.content.added else ()
    elif isinstance(lock, LoadedWheelsLock):
        own, files = lock.content, lock.content.packages
    else:
        raise InputError(
            "export-impossible",
            f"{lock.entry} is built from easyconfigs: no other tool's lock has such packages",
            hint="EasyBuild reads the easyconfigs themselves",
        )
    known = {each.sha256: url for each in files if (url := _url(each))}
    if places and own is not None and len(known) < len(files):
        from envmgr.wheels.fetch import locate_files

        known |= locate_files([each for each in files if each.sha256 not in known], own, str(lock.entry), site, runner)
    return Exact(
        entry=str(lock.entry),
        python="" if own is None else own.python,
        conda=lock.content if isinstance(lock, LoadedCondaLock) else None,
        wheels=tuple(files),
        places=known,
        indexes=tuple(dict.fromkeys(indexes_of(site)[each.index].url for each in files if each.index)),
    )


def _url(file: LockedFile) -> str:
    url = file.url if isinstance(file, LockedWheel) else None
    return url if url is not None and "://" in url else ""
