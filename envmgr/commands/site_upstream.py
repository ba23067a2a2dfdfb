"""The site's upstream and downstreams, as this machine finds them: rows of `site check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from envmgr.catalog.settings import SiteFact
from envmgr.commands import Context
from envmgr.commands.site_places import Look, file_system
from envmgr.commands.site_upgrade import published_items
from envmgr.errors import EnvmgrError
from envmgr.publish.downstream import downstream_prefixes
from envmgr.publish.records import read_current
from envmgr.store.prefix import Prefix, installs
from envmgr.store.upstream import open_upstream
from envmgr.wording import and_more, counted

_CLOSED = "this user must be able to enter and read it"


def _upstream(ctx: Context) -> Iterator[SiteFact]:
    path = ctx.site.upstream
    if path is None:
        yield SiteFact("upstream", "ok", "not set: no other prefix is asked for installs")
        return
    try:
        prefix = open_upstream(path)
        here = [*installs(prefix)]
    except EnvmgrError as error:
        text = "; ".join((error.message, *error.context))
        yield SiteFact("upstream", "error", text, error.hint)
        return
    except OSError as error:
        yield SiteFact("upstream", "error", f"{error.filename}: {error.strerror}", _CLOSED)
        return
    own, real = ctx.site.prefix.resolve(), path.resolve()
    if own.is_relative_to(real) or real.is_relative_to(own):
        text = f"{path} and the site's own prefix are one folder, or one lies in the other: {real}, {own}"
        yield SiteFact("upstream", "error", text, "name another site's prefix, which lies beside it")
        return
    if back := _on_this_prefix(ctx, prefix):
        text = f"{path} stands on installs of this prefix: {', '.join(back[:3])}"
        yield SiteFact("upstream", "error", text, "only one of two prefixes can be the other's upstream")
        return
    text = f"{path}, {counted(len(here), 'installs')}, used where they are"
    yield SiteFact("upstream", "ok", f"{text}; on {file_system(path)}")
    locked, made, same = _compared(ctx, prefix)
    if made and not same:
        hint = "cpu_level, the operating system and its C library must be those of the upstream; nothing of it is used"
        yield SiteFact("upstream", "warning", f"{and_more(made, 3)}: the same lock is another install there", hint)
    if locked:
        text = f"{and_more(locked, 3)}: the upstream has published another lock, so this site builds its own"
        yield SiteFact(
            "upstream", "warning", text, "name the upstream's catalog first in `catalogs`, if it shall be used"
        )


def _on_this_prefix(ctx: Context, upstream: Prefix) -> list[str]:
    """Return the installs of this prefix that the upstream's current generation names."""
    with suppress(EnvmgrError):
        if current := read_current(upstream):
            return [path for path in current.installs if path.startswith(f"{ctx.site.prefix}/")]
    return []


def _compared(ctx: Context, upstream: Prefix) -> tuple[list[str], list[str], list[str]]:
    """Return the entries that the upstream has published by another lock than this site's; those by the same lock, but
    as another install than this site would use there; and those that are the same.
    """
    found: tuple[list[str], list[str], list[str]] = ([], [], [])
    with suppress(EnvmgrError):  # its own administrators hear of a damage
        current = read_current(upstream)
        there = ctx.site.model_copy(update={"prefix": upstream.root, "upstream": None})
        for item in published_items(replace(ctx, site=there), current) if current is not None else ():
            published = current.entries[str(item.entry)] if current is not None else None
            if published is not None:
                kind = 0 if published.lock != item.lock.sha256 else 1 if published.digest != item.install.digest else 2
                found[kind].append(str(item.entry))
    return found


def _downstream(ctx: Context) -> Iterator[SiteFact]:
    if not ctx.site.downstream:
        yield SiteFact("downstream", "ok", "not set: gc keeps nothing for other prefixes")
    for pattern in ctx.site.downstream:
        found, unknown = downstream_prefixes(pattern)
        for why in unknown:
            yield SiteFact("downstream", "warning", why, "gc removes nothing as long as this is so")
        if not unknown:
            of = "1 prefix uses" if len(found) == 1 else f"{len(found)} prefixes use"
            kept = f"{pattern}: gc keeps what {of} of this one"
            yield SiteFact("downstream", "ok", kept)


UPSTREAM_LOOKS: Mapping[str, Look] = {"upstream": _upstream, "downstream": _downstream}
