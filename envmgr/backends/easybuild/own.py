"""The EasyBuild in envmgr's own environment: builds use it if it has the lock's sha256, and no other user could have changed it."""

from __future__ import annotations

import os
import socket
import sys
import sysconfig
from pathlib import Path

from envmgr.backends.easybuild.contents import Places, contents_sum
from envmgr.backends.easybuild.trust import fault_below, fault_on_the_way
from envmgr.system.usernames import user_name


def own_places() -> Places:
    return Places(Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("data")))


def why_not_own(version: str, wanted: str | None, places: Places | None = None) -> str:
    """Why the caller may not run EasyBuild `version` of envmgr's own environment, at `places`; empty when it may.

    `wanted` is the sha256 that a lock has of EasyBuild's contents: empty in a lock without, None where no lock asks. Root and
    the caller must own all of it, and no other user may write it, or a folder above: it runs as the caller.
    """
    places = places or own_places()
    if wanted == "":
        return "the lock has no sha256 of EasyBuild"
    try:
        if why := _why_another(places, version) or _why_unsafe(places):
            return why
        if wanted is not None and (found := contents_sum(places)) != wanted:
            return f"its sha256 is {found}, the lock says {wanted}"
    except PermissionError as error:
        return f"{user_name(os.geteuid())} cannot read {error.filename}"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def _why_another(places: Places, version: str) -> str:
    os.scandir(places.packages).close()  # a glob would find nothing in what cannot be read
    for part in ("framework", "easyblocks", "easyconfigs"):
        if (found := places.version(part)) != version:
            return f"it has {f'easybuild-{part} {found}' if found else f'no easybuild-{part}'}"
    return ""


def _why_unsafe(places: Places) -> str:
    for place in (Path(sys.executable), *places.folders):
        if why := fault_on_the_way(place):
            return why
    return next((why for folder in places.folders if (why := fault_below(folder))), "")


def main() -> None:
    """Asked on a node, before builds are sent: VERSION and SHA256. Says which node it is and why not; else nothing."""
    if why := why_not_own(sys.argv[1], sys.argv[2]):
        sys.stdout.write(f"{socket.gethostname()}: {why}\n")


if __name__ == "__main__":
    main()
