"""An item's sources, from the prefix's cache, brought there if need be."""

from __future__ import annotations

from pathlib import Path

from envmgr.easybuild.lock import LockedItem
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.run import Runner
from envmgr.site import Site
from envmgr.sources import SourceFile, cached_source, fetch_sources
from envmgr.store import Prefix


def source_files(item: LockedItem) -> list[SourceFile]:
    return [SourceFile(s.name, s.sha256, s.urls, item.folder) for s in item.sources]


def collect_sources(item: LockedItem, site: Site, runner: Runner, reporter: Reporter, *, label: str) -> dict[str, Path]:
    """File name -> its place in the cache, each held against the lock's sha256.

    Raises:
        EnvmgrError: `source-missing` and `source-differs`, with what the easyconfig says on how to get it.
    """
    prefix, files = Prefix(site.prefix), source_files(item)
    try:
        if any(cached_source(prefix, file) is None for file in files):
            fetch_sources(files, site, runner, reporter, label=label)
    except EnvmgrError as error:
        if item.instructions and error.reference == "source-missing":
            error.context = (*error.context, f"{item.easyconfig} says: {item.instructions}")
        raise
    found = {}
    for file in files:
        path = cached_source(prefix, file)
        if path is None:
            raise EnvmgrError(
                "source-missing",
                f"{file.name} went from the cache while it was needed",
                context=str(prefix.source_cache),
            )
        found[file.name] = path
    return found
