"""From a lock to the store items that it stands for: each easyconfig has a digest of all that decides its bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envmgr.backends.easybuild.capabilities import handed_to, said_by
from envmgr.backends.easybuild.folders import module_name
from envmgr.backends.easybuild.input import configuration
from envmgr.backends.easybuild.lock import EasyBuildLock, LockedItem
from envmgr.catalog.names import Entry
from envmgr.catalog.target import CpuLevel
from envmgr.store.prefix import Install, Item

Find = Callable[[Entry, object, bool], Install]  # an entry of the store, its identity, `brings_python` -> its install

# 1: what EasyBuild installs, less its logs, read-only. 2: a Python has the mark of `system/pythons.py`; installs without one are
# as before.
MARKED = 2

# Easyconfigs whose install brings `bin/python` with its standard library. Source: EasyBuild 5.4.1, the names in its easyconfigs
# of the easyblocks EB_Python, EB_Anaconda and EB_Mamba, and PyPy.
_PYTHONS = frozenset(
    {"Python", "PyPy", "Anaconda2", "Anaconda3", "Miniconda2", "Miniconda3", "Miniforge3", "Mamba", "Mambaforge"}
)


def brings_python(item: LockedItem) -> bool:
    """Told before it is built, as the digest must be."""
    return item.name in _PYTHONS or item.python


def items_of(lock: EasyBuildLock, cpu_level: CpuLevel, find: Find) -> tuple[Item, ...]:
    """The items in build order. An item's digest covers the digests of what it depends on, so a change reaches all above it."""
    installs: dict[str, Install] = {}
    found = []
    for item in lock.items:
        settings = configuration_of(lock, item, cpu_level)
        identity = _identity(
            lock, item, settings, {d: installs[d].digest for d in (*item.depends, *item.build_depends)}
        )
        entry = Entry(item.name, item.version)
        installs[item.key] = install = find(entry, identity, brings_python(item))
        found.append(
            Item(install, tuple(installs[d] for d in item.depends), tuple(installs[d] for d in item.build_depends))
        )
    return tuple(found)


def configuration_of(lock: EasyBuildLock, item: LockedItem, cpu_level: CpuLevel) -> dict[str, object]:
    """The settings that shape the bytes of this item."""
    return configuration(lock.rpath, lock.filter_deps, cpu_level, handed_to(item.asks, said_by(lock)))


def closure_of(items: Sequence[Item], install: Install) -> list[Install]:
    """The installs that `install` runs with, itself left out, in build order."""
    by_path = {item.install.relative: item for item in items}
    reached: set[str] = set()
    waiting = [install.relative]
    while waiting:
        for each in by_path[waiting.pop()].needs:
            if each.relative not in reached:
                reached.add(each.relative)
                waiting.append(each.relative)
    return [item.install for item in items if item.install.relative in reached]


def module_names(items: Sequence[Item]) -> dict[str, str]:
    """`name/version` -> `name/version-digest8`: EasyBuild's module of each item, and its folder in the store."""
    return {str(item.install.entry): module_name(item.install) for item in items}


def _identity(
    lock: EasyBuildLock, item: LockedItem, settings: Mapping[str, object], depends: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "schema": 1,
        "easyconfig": item.sha256,
        "sources": [[s.name, s.sha256] for s in item.sources],
        "patches": [[p.name, p.sha256] for p in item.patches],
        **({"files": [[f.name, f.sha256] for f in item.files]} if item.files else {}),
        "depends": dict(depends),
        "framework": lock.framework,
        "easyblocks": lock.easyblocks,
        "configuration": dict(settings),
    }
