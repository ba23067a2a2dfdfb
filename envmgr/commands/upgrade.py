"""What this envmgr would do differently with what is published: told by `envmgr site check`, after an upgrade above all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envmgr.catalog.names import parse_entry
from envmgr.catalog.settings import SiteFact
from envmgr.catalog.target import read_target
from envmgr.commands import Context
from envmgr.commands.wanted import Wanted, load_one, plan_for
from envmgr.errors import EnvmgrError
from envmgr.publish.record import GenerationRecord, read_current

_FIELD = "upgrade"


def explain_upgrade(ctx: Context) -> Iterator[SiteFact]:
    """Of what is published: modules that would be written anew, installs that stay as an older layout has them, and locks that
    are the same and would give another install. Reads only; entries whose recipe or lock cannot be used are left out.
    """
    try:
        current = read_current(ctx.prefix)
    except (EnvmgrError, OSError) as error:
        yield SiteFact(_FIELD, "error", f"the current generation cannot be read: {error}")
        return
    if current is None or not current.entries:
        return
    entries = list(_published(ctx, current))
    facts = [*_modules(ctx, current, entries), *_layouts(entries), *_renamed(current, entries)]
    by = f"generation {current.number} (envmgr {current.tools.get('envmgr', 'unknown')})"
    yield from facts or [SiteFact(_FIELD, "ok", f"{by} is as this envmgr makes it")]


def _published(ctx: Context, current: GenerationRecord) -> Iterator[Wanted]:
    target = read_target(ctx.site.cpu_level)
    for name in sorted(current.entries):
        try:
            yield load_one(ctx, ctx.catalog.find(parse_entry(name)), target)
        except EnvmgrError:
            continue  # `envmgr list` tells


def _modules(ctx: Context, current: GenerationRecord, entries: Sequence[Wanted]) -> Iterator[SiteFact]:
    plan, _ = plan_for(ctx, entries)
    if plan.rerender:
        count = len(current.entries)
        modules = "its module" if count == 1 else f"all {count} modules"
        yield SiteFact(
            _FIELD,
            "warning",
            f"the next publish writes {modules} anew: templates or policies are others than those of generation {current.number}",
            "installs stay, and shells that run keep their modules; `envmgr publish` does it now",
        )
    elif anew := [str(s.candidate.entry) for s in plan.steps if s.publish == "module"]:
        yield SiteFact(
            _FIELD,
            "warning",
            f"a publish would write another module of {', '.join(anew)}, on the same install",
            "`envmgr publish` does it now",
        )


def _layouts(entries: Sequence[Wanted]) -> Iterator[SiteFact]:
    for backend in {item.lock.backend.name: item.lock.backend for item in entries}.values():
        older = [str(item.entry) for item in entries if item.lock.backend.name == backend.name and item.of_older_layout]
        if older:
            yield SiteFact(
                _FIELD,
                "ok",
                f"{', '.join(older)}: installs of an older layout of {backend.name} stay in use until their lock changes",
            )


def _renamed(current: GenerationRecord, entries: Sequence[Wanted]) -> Iterator[SiteFact]:
    for item in entries:
        published = current.entries[str(item.entry)]
        if published.lock == item.lock.sha256 and published.path != item.install.relative:
            yield SiteFact(
                _FIELD,
                "warning",
                f"{item.entry}: the same lock is another install here: {item.install.relative}, published is {published.path}",
                "cpu_level, prefix and the operating system are part of it: did one of them change?",
            )
