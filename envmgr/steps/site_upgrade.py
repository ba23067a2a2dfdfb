"""Rows of `check` on an upgrade: the things that this envmgr would do differently with what is published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envmgr.catalog.names import parse_entry
from envmgr.catalog.settings import SiteFact
from envmgr.catalog.site import read_target
from envmgr.errors import EnvmgrError
from envmgr.publish.records import GenerationRecord, read_current
from envmgr.steps import Context
from envmgr.steps.plan import plan_for
from envmgr.steps.resolved import EntryBuild, resolve_entry

_FIELD = "upgrade"


def upgrade_facts(ctx: Context) -> Iterator[SiteFact]:
    """Yield what this envmgr would do differently with what is published.

    That is modules that would be written again, and locks that are the same and would give another install. It reads only; entries whose recipe or lock cannot be used are left out.
    """
    try:
        current = read_current(ctx.prefix)
    except (EnvmgrError, OSError) as error:
        yield SiteFact(_FIELD, "error", f"the current generation cannot be read: {error}")
        return
    if current is None or not current.entries:
        return
    entries = list(published_items(ctx, current))
    yield from _modules(ctx, current, entries)
    yield from _renamed(current, entries)


def published_items(ctx: Context, current: GenerationRecord) -> Iterator[EntryBuild]:
    target = read_target(ctx.site.cpu_level)
    for name in sorted(current.entries):
        try:
            yield resolve_entry(ctx, ctx.catalog.find(parse_entry(name)), target)
        except EnvmgrError:
            continue  # `envmgr list` reports it


def _modules(ctx: Context, current: GenerationRecord, entries: Sequence[EntryBuild]) -> Iterator[SiteFact]:
    plan = plan_for(ctx, entries)
    if plan.rerender:
        count = len(current.entries)
        modules = "its module" if count == 1 else f"all {count} modules"
        others = f"templates or policies are others than those of generation {current.number}"
        hint = "installs stay, and shells that run keep their modules; `envmgr publish` does it now"
        yield SiteFact(_FIELD, "warning", f"the next publish writes {modules} again: {others}", hint)
    elif again := [str(s.planned.entry) for s in plan.steps if s.publish == "module"]:
        text = f"a publish would write another module of {', '.join(again)}, on the same install"
        yield SiteFact(_FIELD, "warning", text, "`envmgr publish` does it now")


def _renamed(current: GenerationRecord, entries: Sequence[EntryBuild]) -> Iterator[SiteFact]:
    for item in entries:
        published = current.entries[str(item.entry)]
        if published.lock == item.lock.sha256 and published.path != item.install.relative:
            paths = f"{item.install.relative}, published is {published.path}"
            hint = "cpu_level, prefix and the operating system are part of it: did one of them change?"
            yield SiteFact(_FIELD, "warning", f"{item.entry}: the same lock is another install here: {paths}", hint)
