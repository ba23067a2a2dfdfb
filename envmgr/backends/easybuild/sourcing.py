"""An item's sources, and EasyBuild's own, from the prefix's cache, brought there if need be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from envmgr.backends.easybuild.lock import EasyBuildLock, LockedItem
from envmgr.catalog.site import Site
from envmgr.downloads import Fetched, Given
from envmgr.downloads.sources import SourceFile, cached_source, fetch_sources
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner

_FOLDER = "e/EasyBuild"  # where EasyBuild keeps its own sources
_CARRY = (
    "or run `envmgr fetch --carry {entry}` on a machine with a network and the same catalog, bring the folder `cache` of its prefix, and "
    "run `envmgr fetch {entry} --file /path/to/cache`"
)


def source_files(item: LockedItem) -> list[SourceFile]:
    return [SourceFile(s.name, s.sha256, s.urls, s.folder or item.folder) for s in item.sources]


def collect_all(items: Sequence[LockedItem], site: Site, runner: Runner, reporter: Reporter, *, label: str) -> None:
    """Every source of the items into the cache; what is there costs a look only.

    Raises:
        EnvmgrError: `source-missing` and `source-differs` for all of them, with what easyconfigs say on how to get theirs.
    """
    cache = Prefix(site.prefix).source_cache
    files = [(item, file) for item in items for file in source_files(item)]
    lacking = [(item, file) for item, file in files if not (cache / file.sha256 / file.name).is_file()]
    if lacking:
        _fetch(lacking, site, runner, reporter, label=label)


def collect_sources(item: LockedItem, site: Site, runner: Runner, reporter: Reporter, *, label: str) -> dict[str, Path]:
    """File name -> its place in the cache, each held against the lock's sha256; one that was damaged is fetched again.

    Raises:
        EnvmgrError: `source-missing` and `source-differs`, with what the easyconfig says on how to get it.
    """
    collect_all([item], site, runner, reporter, label=label)
    prefix, files = Prefix(site.prefix), source_files(item)
    found = {}
    for file in files:
        path = cached_source(prefix, file)
        if path is None:
            _fetch([(item, file)], site, runner, reporter, label=label, again=True)
            path = cached_source(prefix, file)
        if path is None:
            raise EnvmgrError(
                "source-missing",
                f"{file.name} went from the cache while it was needed",
                context=str(prefix.source_cache),
            )
        found[file.name] = path
    return found


def fetch_locked(
    lock: EasyBuildLock,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    label: str,
    given: Given,
    sources: bool,
    easybuild: bool,
    dry_run: bool = False,
) -> Fetched:
    """What the lock names into the cache: the `sources` of its items, and what an EasyBuild is made from.

    Raises:
        EnvmgrError: as `fetch_sources`, for all of them.
    """
    files = [file for item in lock.items for file in source_files(item)] if sources else []
    own = []
    if easybuild and not lock.easybuild_files:
        reporter.say(f"{label}: EasyBuild {lock.framework} is not fetched: the lock does not name its files")
    elif easybuild:
        own = _easybuild_files(lock, site, runner, reporter, label=label, given=given, dry_run=dry_run)
    try:
        return fetch_sources([*files, *own], site, runner, reporter, label=label, given=given, dry_run=dry_run)
    except EnvmgrError as error:
        if any(file.sha256 in line for file in own for line in error.context):
            error.hint += "\n  " + _CARRY.format(entry=label)
        raise


def collect_easybuild(
    lock: EasyBuildLock, site: Site, runner: Runner, reporter: Reporter, *, label: str
) -> dict[str, Path]:
    """File name -> its place in the cache, of all that an EasyBuild is made from.

    Raises:
        EnvmgrError: `source-missing` and `source-differs`, with what helps.
    """
    fetch_locked(lock, site, runner, reporter, label=label, given={}, sources=False, easybuild=True)
    cache = Prefix(site.prefix).source_cache
    return {file.name: cache / file.sha256 / file.name for file in lock.easybuild_files}


def _easybuild_files(
    lock: EasyBuildLock, site: Site, runner: Runner, reporter: Reporter, *, label: str, given: Given, dry_run: bool
) -> list[SourceFile]:
    """The site's mirrors of the package index are asked for what is not here; in a dry run it is told where they would be."""
    from envmgr.backends.easybuild.index import find_in_mirrors, listed_at, mirrors_of

    prefix, mirrors = Prefix(site.prefix), mirrors_of(site)
    plain = {file: SourceFile(file.name, file.sha256, (file.url,), _FOLDER) for file in lock.easybuild_files}
    if not mirrors:
        return [*plain.values()]
    if dry_run:
        return [replace(each, mirrored=tuple(listed_at(m, file) for m in mirrors)) for file, each in plain.items()]
    lacking = [f for f, each in plain.items() if f.sha256 not in given and cached_source(prefix, each) is None]
    places = find_in_mirrors(lacking, site, runner, reporter, label=label) if lacking else {}
    return [replace(each, mirrored=places.get(file.sha256, ())) for file, each in plain.items()]


def _fetch(
    wanted: Sequence[tuple[LockedItem, SourceFile]],
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    label: str,
    again: bool = False,
) -> None:
    try:
        fetch_sources([file for _, file in wanted], site, runner, reporter, label=label, again=again)
    except EnvmgrError as error:
        if error.reference in ("source-missing", "source-differs"):
            said = dict.fromkeys(f"{i.easyconfig} says: {i.instructions}" for i, _ in wanted if i.instructions)
            error.context = (*error.context, *said)
        raise
