"""Where easyconfigs lie: the site's folders, then those shipped with envmgr, then EasyBuild's own. The first that has one wins."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from envmgr.easybuild.lock import LockedItem
from envmgr.files import sha256_file
from envmgr.site import Site


def local_easyconfig(item: LockedItem, site: Site) -> Path | None:
    """The item's easyconfig in the site's folders or the shipped one: `<folder>/<letter>/<Name>/<file name>`, nowhere else in them."""
    places = (root / item.folder / item.easyconfig for root in site.easyconfigs)
    return next((place for place in places if place.is_file()), None)


def changed_since(item: LockedItem, site: Site) -> str:
    """How an easyconfig, or a patch or source beside it, differs from what was locked; empty when all is as it was.

    What comes with EasyBuild is held against the lock when it is built: it does not change by itself.
    """
    path = local_easyconfig(item, site)
    if item.origin == "easybuild":
        return f"{path} now comes before EasyBuild's own" if path is not None else ""
    if path is None:
        return f"{item.easyconfig} is gone"
    if sha256_file(path) != item.sha256:
        return f"{path} has changed"
    for file in item.beside:
        beside = path.parent / file.name
        if beside.is_file() and sha256_file(beside) != file.sha256:
            return f"{beside} has changed"
    return ""


def copy_easyconfigs(items: Sequence[LockedItem], site: Site, folder: Path) -> None:
    """Copy the local easyconfigs of the items, with the patches and sources beside them, into `folder` as the one that has them all."""
    for item in items:
        path = local_easyconfig(item, site)
        if path is None:
            continue
        target = folder / item.folder
        target.mkdir(parents=True, exist_ok=True)
        for each in (path, *(path.parent / file.name for file in item.beside)):
            if each.is_file():
                shutil.copyfile(each, target / each.name)
