"""A snapshot folder out of shipped locks: what they were solved from, as far as it can be had offline.

Only chosen packages are in it, so a solve has less choice than the one that made the locks; it must come to the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from envmgr.backends.conda.lock import LockedPackage
from envmgr.backends.conda.lockfile import read_lock

SUBDIRS = ("linux-64", "noarch")


def channel_from_locks(recipes: Iterable[Path], folder: Path) -> Path:
    """Write `folder/<subdir>/repodata.json` with every package of the locks in the folders `recipes`; returns `folder`."""
    subdirs: dict[str, dict[str, Any]] = {
        s: {"info": {"subdir": s}, "packages": {}, "packages.conda": {}} for s in SUBDIRS
    }
    for recipe in recipes:
        for package in read_lock(recipe)[0].packages:
            section = "packages.conda" if package.url.endswith(".conda") else "packages"
            subdirs[package.subdir][section][package.file_name] = record_of(package)
    for subdir, content in subdirs.items():
        (folder / subdir).mkdir(parents=True)
        (folder / subdir / "repodata.json").write_text(json.dumps(content, sort_keys=True))
    return folder


def record_of(package: LockedPackage) -> dict[str, Any]:
    """Its record in a channel. Build strings end in the build number, by convention."""
    last = package.build.rpartition("_")[2]
    number = int(last) if last.isdecimal() else 0
    found = package.to_json() | {"subdir": package.subdir, "build_number": number}
    return {"depends": [], **{key: value for key, value in found.items() if key != "url"}}
