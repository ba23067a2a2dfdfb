"""The states of entries: declared, locked, built, published or outdated, with what there is to say of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from envmgr.catalog.entries import CatalogEntry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import read_target
from envmgr.errors import EnvmgrError
from envmgr.publish.plan import state_of
from envmgr.publish.records import GenerationRecord, read_current
from envmgr.steps import Context
from envmgr.steps.plan import plan_for
from envmgr.steps.resolved import EntryBuild, resolve_entry
from envmgr.store.away import why_not_mounted

_MODULE_ALONE = "a publish writes its module again, on the same install"


@dataclass(frozen=True, slots=True)
class EntryState:
    """The state of an entry: declared, locked, built, published or outdated.

    `notes` say why, and other facts: hidden, default, deprecated, broken.
    """

    entry: str
    state: str
    description: str
    notes: tuple[str, ...]
    shipped: bool


def current_generation(ctx: Context) -> GenerationRecord | None:
    """Return the current generation; say so if the prefix is not mounted here, since then nothing of it is seen."""
    current = read_current(ctx.prefix)
    if current is None and (why := why_not_mounted(ctx.site)):
        ctx.reporter.say(f"warning: {why}: what is built and published cannot be seen")
    return current


def entry_states(ctx: Context, entries: Sequence[CatalogEntry], current: GenerationRecord | None) -> list[EntryState]:
    """Return the states of all entries by one plan: the store and `current` are read once."""
    target = read_target(ctx.site.cpu_level)
    loaded: dict[str, EntryBuild | EnvmgrError] = {}
    for found in entries:
        try:
            loaded[str(found.entry)] = resolve_entry(ctx, found, target)
        except EnvmgrError as error:
            loaded[str(found.entry)] = error
    published = [w for name, w in loaded.items() if isinstance(w, EntryBuild) and current and name in current.entries]
    plan = plan_for(ctx, published)
    outdated = {str(s.planned.entry) for s in plan.steps if s.publish != "unchanged"}
    rewritten = {str(s.planned.entry) for s in plan.steps if s.publish == "module" and s.build == "reuse"}
    states = [_state(found, loaded[str(found.entry)], current, outdated) for found in entries]
    states = [replace(s, notes=(*s.notes, _MODULE_ALONE)) if s.entry in rewritten else s for s in states]
    hides = {str(found.entry): [f"hides {folder}" for folder in ctx.catalog.hidden(found)] for found in entries}
    return [replace(s, notes=(*s.notes, *hides[s.entry], *gone_notes(ctx, s.entry, current))) for s in states]


def gone_notes(ctx: Context, entry: str, current: GenerationRecord | None) -> tuple[str, ...]:
    """Return a note on the installs that a published module names and that do not exist any more."""
    published = current.entries.get(entry) if current else None
    if published is None:
        return ()
    gone = [path for path in published.paths if not ctx.prefix.install_at(path).exists()]
    return (f"broken: {', '.join(gone)} {'is' if len(gone) == 1 else 'are'} gone; build it again",) if gone else ()


def _state(
    found: CatalogEntry, loaded: EntryBuild | EnvmgrError, current: GenerationRecord | None, outdated: set[str]
) -> EntryState:
    name = str(found.entry)
    published = bool(current and name in current.entries)
    if isinstance(loaded, EntryBuild):
        state = state_of(published, name in outdated, loaded.install.exists(), locked=True)
        description = loaded.software.description.strip().splitlines()[0]
        notes = [*_notes(loaded.recipe), *not_ours(loaded.lock.outside), *_moved(loaded, current)]
        notes += [f"its lock contradicts: {fault.rule}: {fault.text}" for fault in loaded.faults()]
        return EntryState(name, state, description, tuple(notes), found.shipped)
    notes, description = [], ""
    try:
        notes = _notes(found.recipe())
        description = found.software().description.strip().splitlines()[0]
    except EnvmgrError:
        pass  # the note below says it
    if loaded.reference != "lock-missing" or published:
        notes.append(loaded.message)
    return EntryState(name, state_of(published, True, False, locked=False), description, tuple(notes), found.shipped)


def _moved(item: EntryBuild, current: GenerationRecord | None) -> list[str]:
    """Return the entries below it that now have another install than the one that its published install needs."""
    published = current.entries.get(str(item.entry)) if current else None
    if published is None or published.digest == item.install.digest:
        return []
    return [
        f"stands on {part.made_by.lock.entry}, which has another install now: {part.items[-1].install.relative}"
        for part in item.parts[:-1]
        if part.items[-1].install.relative not in published.paths
    ]


def not_ours(path: str) -> list[str]:
    """Return the note on an entry that leads to a tree outside of the store, if it does."""
    return [f"not ours: {path}"] if path else []


def _notes(recipe: Recipe) -> list[str]:
    notes = [word for word, holds in (("default", recipe.default), ("hidden", recipe.hidden)) if holds]
    return [*notes, f"deprecated, goes on {recipe.deprecated.date}"] if recipe.deprecated else notes
