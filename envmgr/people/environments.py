"""The environments that a user has: their installs, what they take, and the state of the entries below them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from packaging.utils import canonicalize_name, canonicalize_version

from envmgr.catalog.names import MODULE_NAME
from envmgr.errors import EnvmgrError, InputError
from envmgr.people.lock import UserLock
from envmgr.people.places import UserPlaces
from envmgr.publish.records import GenerationRecord
from envmgr.store.manifest import read_manifest
from envmgr.store.prefix import SHORT, Install, Prefix


def require_environment(places: UserPlaces, name: str) -> Install:
    """Return the install that NAME is now. Raise InputError `no-environment`."""
    if (install := places.install(name)) is None:
        raise InputError("no-environment", f"you have no environment `{name}`", hint="`envmgr user list` shows yours")
    return install


def all_installs(places: UserPlaces) -> Iterator[Install]:
    """Yield the installs of all environments of this user, former ones too."""
    for name in places.names():
        if (install := places.install(name)) is not None:
            yield from installs_of(install.prefix, name)


def installs_of(prefix: Prefix, name: str) -> Iterator[Install]:
    """Yield all installs of an environment, the former ones too."""
    for manifest in sorted((prefix.store / MODULE_NAME).glob("*.manifest.json")):
        install = prefix.install_at(f"store/{MODULE_NAME}/{manifest.name.removesuffix('.manifest.json')}")
        if install.entry.version == name:
            yield install


def remains_of(prefix: Prefix, name: str) -> Iterator[Path]:
    """Yield all that a prefix has of an environment, manifests first: whole installs, and what killed runs have left."""
    label = re.compile(rf"(?:\.staging-)?{re.escape(name)}-[0-9a-f]{{{SHORT}}}(?P<manifest>\.manifest\.json)?")
    folder = prefix.store / MODULE_NAME
    found = [(each, match) for each in folder.glob("*") if (match := label.fullmatch(each.name))]
    yield from (each for each, _ in sorted(found, key=lambda one: (not one[1]["manifest"], one[0].name)))
    yield from sorted(each for each in prefix.cache.glob("*") if label.fullmatch(each.name))
    lock = re.compile(rf"store-{MODULE_NAME}-{re.escape(name)}-[0-9a-f]{{{SHORT}}}\.lock")
    yield from sorted(each for each in prefix.locks.glob("*") if lock.fullmatch(each.name))


def outdated(install: Install, days: float) -> Iterator[Install]:
    """Yield the former installs of an environment that were left more than `days` ago, by the time of their manifests:
    no shell and no job should have them loaded any more.
    """
    for each in installs_of(install.prefix, install.entry.version):
        if each.path != install.path and each.manifest.stat().st_mtime < time.time() - days * 86400:
            yield each


def amount(installs: Iterable[Install]) -> tuple[int, int]:
    """Return inodes and bytes, by the manifests; one that cannot be read counts nothing."""
    inodes = size = 0
    for install in installs:
        with suppress(EnvmgrError):
            manifest = read_manifest(install.manifest)
            inodes, size = inodes + len(manifest.paths) + 2, size + manifest.size
    return inodes, size


def links_of(places: UserPlaces, name: str, install: Install) -> set[Path]:
    """Return the links that name the environment: the one with its name, and that of `--at`."""
    found = {places.link(name)}
    with suppress(FileNotFoundError):  # a scratch file system that was emptied
        beside = [each for each in install.prefix.root.parent.iterdir() if each.is_symlink()]
        found.update(each for each in beside if each.readlink() == install.path)
    return found


def base_state(install: Install, lock: UserLock, record: GenerationRecord) -> str:
    """Return the state of the entry below: `current`; `newer`, if the entry has another install now; `removed`, if it is
    no longer published; `gone`, if the install itself is not there.
    """
    root = read_manifest(install.manifest).provenance.get("root")
    if not isinstance(root, str) or not Path(root).is_dir():
        return "gone"
    entry = record.entries.get(lock.on)
    if entry is None:
        return "removed"
    return "current" if entry.digest == lock.base else "newer"


def strangers(install: Install, lock: UserLock) -> Iterator[str]:
    """Yield the packages that lie in the environment and are not in its lock."""
    for folder in sorted(install.path.glob("lib/python3*/site-packages/*.dist-info")):
        name, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
        if lock.versions.get(canonicalize_name(name)) != canonicalize_version(version, strip_trailing_zero=False):
            yield f"{canonicalize_name(name)} {version}"
