"""The store items of a lock, and the places of EasyBuild's own files of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envmgr.backends.easybuild.lock import EasyBuildLock, LockedItem
from envmgr.backends.easybuild.settings import handed_to, optarch, said_by
from envmgr.catalog.names import Entry
from envmgr.catalog.site_file import CpuLevel
from envmgr.store.prefix import Install, Item, Prefix


def chain_of(lock: EasyBuildLock, cpu_level: CpuLevel, find: Callable[[Entry, object], Install]) -> tuple[Item, ...]:
    """Return the items in build order; `find` gets an entry of the store and its identity.

    An item's digest covers the digests of what it depends on, so that a change reaches all items above it.
    """
    installs: dict[str, Install] = {}
    found = []
    for item in lock.items:
        digests = {d: installs[d].digest for d in (*item.depends, *item.build_depends)}
        identity = _identity(lock, item, configuration_of(lock, item, cpu_level), digests)
        installs[item.key] = install = find(Entry(item.name, item.version), identity)
        needs, build_needs = (tuple(installs[d] for d in each) for each in (item.depends, item.build_depends))
        found.append(Item(install, needs, build_needs))
    return tuple(found)


def configuration_of(lock: EasyBuildLock, item: LockedItem, cpu_level: CpuLevel) -> dict[str, object]:
    """Return the settings of EasyBuild that shape this item's bytes: part of its digest, and of the build's command."""
    return {
        "rpath": lock.rpath,
        "filter-deps": list(lock.filter_deps),
        "optarch": optarch(cpu_level),
        **handed_to(item.asks, said_by(lock)),
    }


def _identity(
    lock: EasyBuildLock, item: LockedItem, settings: Mapping[str, object], depends: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "schema": 1,
        "easyconfig": item.sha256,
        "sources": [[s.name, s.sha256] for s in item.sources],
        "patches": [[p.name, p.sha256] for p in item.patches],
        **({"files": [[f.name, f.sha256] for f in item.files]} if item.files else {}),
        "depends": depends,
        "framework": lock.framework,
        "easyblocks": lock.easyblocks,
        "configuration": settings,
    }


def runs_with(items: Sequence[Item], install: Install) -> list[Install]:
    """Return the installs that `install` runs with, without itself, in build order."""
    by_path = {item.install.relative: item for item in items}
    found: set[str] = set()
    waiting = [install.relative]
    while waiting:
        for each in by_path[waiting.pop()].needs:
            if each.relative not in found:
                found.add(each.relative)
                waiting.append(each.relative)
    return [item.install for item in items if item.install.relative in found]


def modules_folder(prefix: Prefix) -> Path:
    """Return the folder of EasyBuild's own modules: private, and named as their installs are."""
    return prefix.root / "easybuild" / "modules"


def tools_folder(prefix: Prefix) -> Path:
    """Return the folder of private EasyBuilds, by version."""
    return prefix.root / "easybuild" / "tools"


def locks_folder(prefix: Prefix) -> Path:
    """Return the folder of EasyBuild's own locks."""
    return prefix.jobs / "easybuild-locks"


def module_name(install: Install) -> str:
    """Return the name of EasyBuild's own module of it, and of its folder in the store: `<name>/<version>-<digest8>`."""
    return f"{install.entry.name}/{install.label}"


def module_file(install: Install) -> Path:
    """Return the file of EasyBuild's own module of it."""
    return modules_folder(install.prefix) / f"{module_name(install)}.lua"


def lock_of(install: Install) -> Path:
    """Return EasyBuild's lock of it, named by the install's path. Source: easybuild-framework, `create_lock`."""
    return locks_folder(install.prefix) / (str(install.path).replace("/", "_") + ".lock")
