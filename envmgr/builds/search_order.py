"""Items of locks where an install may be in the site's prefix or in its upstream's."""

from __future__ import annotations

from collections.abc import Sequence

from envmgr.backends import LoadedLock
from envmgr.catalog.site import Site, Target
from envmgr.store.prefix import Item


def search_orders(site: Site) -> tuple[Site, ...]:
    """Return the site once for each order in which its prefix and its upstream can be searched."""
    return (site,) if site.upstream is None else (site, site.model_copy(update={"upstream_first": True}))


def items_of_all(locks: Sequence[LoadedLock], site: Site, target: Target) -> list[tuple[Item, ...]]:
    """Return the items of each lock, of which the last one is wanted, and the others are below it.

    With an upstream, an install may be in both prefixes, and what stands on one of the two does not stand on the other.
    So both orders are tried: the first with which the last install is there, else the one with which least is missing.
    """
    found = [[lock.items(each, target) for lock in locks] for each in search_orders(site)]
    if len(found) == 1:
        return found[0]

    def missing(parts: Sequence[tuple[Item, ...]]) -> int:
        return sum(not item.install.exists() for items in parts for item in items)

    there = next((parts for parts in found if parts[-1][-1].install.exists()), None)
    return there or min(found, key=missing)
