"""The places of easyconfigs: the site's folders, then envmgr's, then EasyBuild's own. The first that has one wins."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from envmgr.backends.easybuild.lock import EasyBuildLock, LockedFile, LockedItem
from envmgr.backends.easybuild.settings import EASYBUILD, easyconfig_folders, own_easyconfigs
from envmgr.catalog.site import Site
from envmgr.system.files import shipped
from envmgr.system.invisible import TABS
from envmgr.system.untrusted_files import (
    ANYWHERE,
    BESIDE,
    Kind,
    copy_file,
    digest_of,
    read_bytes,
    read_file_text,
    require_visible_patch,
)

_TEXT = Kind("easyconfig", 1 << 20, TABS)
EASYCONFIG = Kind("file of the easyconfigs", 16 << 30)  # sources may lie beside an easyconfig


def local_easyconfig(item: LockedItem, site: Site) -> Path | None:
    """Return the item's easyconfig in the site's folders or envmgr's; it lies in `<letter>/<Name>/` of one."""
    places = (root / item.folder / item.easyconfig for root in easyconfig_folders(site))
    return next((place for place in places if place.is_file()), None)


def local_file(item: LockedItem, file: LockedFile, easyconfig: Path | None, roots: Sequence[Path]) -> Path | None:
    """Return where EasyBuild finds a file of the item: beside its easyconfig, or below the roots; None without one."""
    folder = file.folder or item.folder
    beside = [] if easyconfig is None or file.folder else [easyconfig.parent]
    places = (place / file.name for place in (*beside, *(root / folder for root in roots)))
    return next((place for place in places if place.is_file()), None)


def root_of(path: Path, site: Site) -> Path:
    """Return the folder of easyconfigs that a file lies in: a link in it may not lead out of it."""
    return next((root for root in easyconfig_folders(site) if path.is_relative_to(root)), ANYWHERE)


def sum_of(path: Path, site: Site) -> str:
    """Return its sha256; "" for a file that cannot be read."""
    with suppress(OSError):
        return digest_of(path, EASYCONFIG, tree=root_of(path, site))
    return ""


def installed_easyconfigs(version: str) -> Path | None:
    """Return the easyconfigs that were installed with envmgr; None if there are none, or EasyBuild's `version` is
    another.
    """
    folder = Path(sys.prefix) / "easybuild" / "easyconfigs"
    return folder if version == EASYBUILD and folder.is_dir() else None


def changed_since(item: LockedItem, site: Site) -> list[str]:
    """Return how an easyconfig, and the files that go with it, differ from what was locked.

    Files that come with EasyBuild are compared with the lock when they are built: they do not change by themselves.
    Raises InputError `text-invisible` for an easyconfig of the site that nobody can have reviewed.
    """
    path = local_easyconfig(item, site)
    if path is not None:
        # Only for its checks: the text itself is not used.
        read_file_text(path, _TEXT, tree=root_of(path, site))
    if item.origin == "easybuild":
        return [f"{path} now comes before EasyBuild's own"] if path is not None else []
    if path is None:
        return [f"{item.easyconfig} is gone"]
    changed = [f"{path} has changed"] if sum_of(path, site) != item.sha256 else []
    for file in item.beside:
        found = local_file(item, file, path, easyconfig_folders(site))
        if found is not None and sum_of(found, site) != file.sha256:
            changed.append(f"{found} has changed")
        elif found is not None and found.suffix in (".patch", ".diff"):
            require_visible_patch(read_bytes(found, BESIDE, tree=root_of(found, site)), found)
    return changed


def gone_files(lock: EasyBuildLock, site: Site) -> Iterator[str]:
    """Yield which files of the easyconfigs are no longer there: `NAME is gone: …`. A build would find that out late."""
    own = installed_easyconfigs(lock.framework)
    for item in lock.items if own is not None else ():
        path = local_easyconfig(item, site)
        for file in item.beside if path is not None and item.origin == "catalog" else ():
            if local_file(item, file, path, [*easyconfig_folders(site), *([own] if own else [])]) is None:
                yield f"{file.name} is gone: it is no longer beside {path}"


def copy_easyconfigs(items: Sequence[LockedItem], site: Site, folder: Path) -> None:
    """Copy the items' local easyconfigs, and the files that go with them, into one `folder` of easyconfigs."""
    for item in items:
        path = local_easyconfig(item, site)
        places = {} if path is None else {item.folder: [path]}
        for file in item.beside:
            if (found := local_file(item, file, path, easyconfig_folders(site))) is not None:
                places.setdefault(file.folder or item.folder, []).append(found)
        for below, files in places.items():
            (folder / below).mkdir(parents=True, exist_ok=True)
            for each in files:
                copy_file(each, folder / below / each.name, EASYCONFIG, tree=root_of(each, site))


def shipped_files(name: object, site: Site) -> Mapping[Path, Path]:
    """Return the shipped easyconfig of that name and its patches -> their places in the first of the site's folders."""
    own, ours = own_easyconfigs(site), shipped("easyconfigs")
    if not own or not isinstance(name, str) or (place := next(iter(ours.glob(f"*/*/{name}")), None)) is None:
        return {}
    patches = place.parent.glob(f"{name.removesuffix('.eb')}*.patch")
    return {file: own[0] / file.relative_to(ours) for file in (place, *patches)}
