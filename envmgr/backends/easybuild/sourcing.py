"""An item's sources, from the prefix's cache, brought there if need be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from envmgr.backends.easybuild.lock import LockedItem
from envmgr.catalog.site import Site
from envmgr.downloads.sources import SourceFile, cached_source, fetch_sources
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner


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
