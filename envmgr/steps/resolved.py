"""The entries behind names: recipe, lock, install, and the module of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from envmgr.backends import LoadedEntry, LoadedLock, get_backend
from envmgr.catalog.entries import Catalog, CatalogEntry
from envmgr.catalog.fitness import NodeNeeds, gpu_needs
from envmgr.catalog.lock_checks import Judged, LockFault
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe, Software
from envmgr.catalog.site import Target, read_target
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.families import Member
from envmgr.publish import records
from envmgr.publish.compose import compose_module
from envmgr.publish.plan import NewModule, PlannedEntry
from envmgr.steps import Context
from envmgr.steps.lock_checks import Losses, entry_faults, judge_all, reading_entry, require_sound
from envmgr.store.manifest import InstallFacts, read_manifest
from envmgr.store.prefix import Install, Item, Prefix


@dataclass(frozen=True, slots=True)
class LockInstalls:
    """The installs that one lock builds."""

    made_by: LoadedEntry
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class EntryBuild:
    """One entry with everything that was read for it. `lock` does the work.

    `parts` are the entries below it, which are built first and not published for that, and itself, the last.
    """

    found: CatalogEntry
    recipe: Recipe
    software: Software
    lock: LoadedLock
    parts: tuple[LockInstalls, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(item for part in self.parts for item in part.items)

    @property
    def entry(self) -> Entry:
        return self.found.entry

    @property
    def install(self) -> Install:
        """Return the entry's own install: the last of its items."""
        return self.items[-1].install

    @property
    def missing(self) -> tuple[Item, ...]:
        """Return what a build would have to make, in build order. What only the build of a finished install needed may
        be gone.
        """
        by_path = {item.install.relative: item for item in self.items}
        there: dict[str, bool] = {}
        waiting = [self.install.relative]
        while waiting:
            item = by_path[waiting.pop()]
            if item.install.relative not in there:
                there[item.install.relative] = item.install.exists()
                below = item.needs if there[item.install.relative] else (*item.needs, *item.build_needs)
                waiting += [each.relative for each in below]
        return tuple(item for item in self.items if there.get(item.install.relative) is False)

    def require_sound(self) -> None:
        """Raise InputError `lock-contradicts` for the first of its locks with faults."""
        require_sound(self._judged())

    def require_none_hidden(self, facts: InstallFacts) -> None:
        """Raise EnvmgrError `commands-hidden` for programs that its finished install brings."""
        from envmgr.builds.install import require_none_hidden

        require_none_hidden(self.entry, facts.environment, self.recipe, facts.home(self.install.path))

    def faults(self) -> list[LockFault]:
        """Return the faults of the locks that it is built from."""
        return entry_faults(self.entry, self._judged())

    def _judged(self) -> list[tuple[Entry, Judged]]:
        with reading_entry(self.entry):
            return judge_all(self.entry, self.recipe, self.lock.facts, self.lock.below)

    def module(self, facts: InstallFacts) -> NewModule:
        """Return what the next generation publishes of it."""
        spec = compose_module(
            self.entry,
            self.recipe,
            self.software,
            root=str(self.install.path),
            digest=self.install.digest,
            packages=self.lock.packages,
            extensions=self.lock.extensions,
            facts=facts,
            own_python=self.install.has_python(),
            pip=records.find_pip(self.install, facts),
            kernel=records.has_kernel(self.install, facts),
            cuda=self.lock.facts.cuda,
            compat=self.lock.facts.compat,
        )
        return NewModule(spec, facts, self.lock.sha256)

    def planned(self, module: str | None) -> PlannedEntry:
        """Return its row of a plan; `module` is the fingerprint of its module, None while that is not known."""
        return PlannedEntry(
            entry=self.entry,
            digest=self.install.digest,
            path=self.install.relative,
            missing=tuple(each.install.relative for each in self.missing),
            fingerprint=module,
            packages=self.lock.packages,
            download=self.lock.download,
            installed=self.lock.installed,
        )

    def needs(self, measured: Sequence[str] | None) -> NodeNeeds:
        """Return what it needs of a node; what was `measured` in its install counts."""
        requires = self.recipe.requires
        return NodeNeeds(requires, gpu_needs(requires, self.lock.facts.cuda, self.lock.facts.compat, measured))

    def measured(self) -> tuple[str, ...] | None:
        """Return what its binaries have code for; None where that is not known. Raises EnvmgrError
        `manifest-damaged`.
        """
        if self.lock.facts.cuda is None or not self.install.exists():
            return None
        return read_manifest(self.install.manifest).facts.gpu_codes

    def member(self) -> Member:
        """Return what decides its families, as far as that is known before its install is there."""
        return Member(self.recipe.families, bool(self.lock.python), self.recipe.depends, self.recipe.conflicts)


def resolve_named(ctx: Context, names: Sequence[str], losses: Losses | None = None) -> list[EntryBuild]:
    """Return the named entries and their dependencies, dependencies first; with `losses`, those that can be loaded.

    Raises:
        InputError: unknown entry, bad recipe.
        EnvmgrError: `lock-missing`, `lock-stale`, `lock-contradicts`, `licence-not-acknowledged`.
    """
    entries = [ctx.catalog.parse(name) for name in dict.fromkeys(names)]
    target = read_target(ctx.site.cpu_level)
    losses = losses or Losses(allowed=False)
    wanted: list[EntryBuild] = []
    for found in _loadable(ctx.catalog, entries, losses):
        with losses.of(found.entry):
            item = resolve_entry(ctx, found, target)
            item.require_sound()
            wanted.append(item)
    _require_one_default(wanted)
    return wanted


def resolve_all(ctx: Context, losses: Losses | None = None) -> tuple[list[EntryBuild], tuple[str, ...]]:
    """Return what `--all` means: every entry, dependencies first; and the entries that are left out.

    Left out are those with a licence that the site has not acknowledged, of their own or of one that they depend on,
    and those that ship without a lock.

    Raises:
        As `resolve_named`, except for `licence-not-acknowledged`.
    """
    target = read_target(ctx.site.cpu_level)
    losses = losses or Losses(allowed=False)
    wanted: list[EntryBuild] = []
    left_out: list[str] = []
    unlocked: list[str] = []
    entries = [each.entry for each in ctx.catalog.entries()]
    for found in _loadable(ctx.catalog, entries, losses):
        item = None
        with losses.of(found.entry):
            try:
                item = load_entry(ctx, found, target)
            except EnvmgrError as error:
                if not found.shipped or error.reference != "lock-missing":
                    raise
                unlocked.append(str(found.entry))
            if item is not None and not unacknowledged(ctx, item):
                item.require_sound()
        if item is None:
            continue
        if unacknowledged(ctx, item) or set(item.recipe.depends) & set(left_out):
            left_out.append(str(item.entry))
        else:
            wanted.append(item)
    if left_out:
        ctx.reporter.say(f"left out, because the licence is not acknowledged: {', '.join(left_out)}")
    if unlocked:
        ctx.reporter.say(f"left out, because they ship without a lock: {', '.join(unlocked)}")
    _require_one_default(wanted)
    return wanted, (*left_out, *unlocked)


def current_entries(prefix: Prefix) -> Mapping[str, records.PublishedEntry]:
    """Return the entries of the current generation; none where it is damaged, which is reported where it matters."""
    with suppress(EnvmgrError):
        if current := records.read_current(prefix):
            return current.entries
    return {}


def _loadable(catalog: Catalog, entries: Sequence[Entry], losses: Losses) -> Iterator[CatalogEntry]:
    """Yield entries and their dependencies, dependencies first, without those that are lost.

    Lost is an entry whose own recipe cannot be read, or that of one that it depends on.
    """
    found: dict[Entry, CatalogEntry] = {}
    for entry in entries:
        with losses.of(entry):
            found |= {each.entry: each for each in catalog.with_dependencies([entry])}
    for each in found.values():
        with losses.of(each.entry):
            lost = losses.stand_on_lost(each.entry, each.recipe().depends)
        if str(each.entry) not in losses.failed and not lost:
            yield each


def resolve_entry(ctx: Context, found: CatalogEntry, target: Target) -> EntryBuild:
    """Return one entry. Raises EnvmgrError as `resolve_named`."""
    item = load_entry(ctx, found, target)
    if missing := unacknowledged(ctx, item):
        message = f"{found.entry} comes under a licence that the site has not acknowledged"
        hint = f"read it; then add `{missing[0]}` to policies.licences in site.yaml"
        context = f"{missing[0]}: {item.software.homepage}"
        raise EnvmgrError("licence-not-acknowledged", message, context=context, hint=hint)
    return item


def load_entry(ctx: Context, found: CatalogEntry, target: Target) -> EntryBuild:
    with reading_entry(found.entry):
        recipe, software = found.recipe(), found.software()
        backend = get_backend(recipe.backend)
        lock = backend.load_lock(found.entry, recipe, found.folder, ctx.site)
        entries = (*lock.below, LoadedEntry(recipe, found.folder, lock))
        parts = tuple(LockInstalls(each, each.lock.items(ctx.site, target)) for each in entries)
    return EntryBuild(found, recipe, software, lock, parts)


def unacknowledged(ctx: Context, item: EntryBuild) -> list[str]:
    """Return the words of its licences that `policies.licences` lacks."""
    own = [item.software.acknowledge] if item.software.acknowledge else []
    words = [*own, *(word for part in item.parts for word in part.made_by.lock.licences)]
    return [word for word in dict.fromkeys(words) if word not in ctx.site.policies.licences]


def _require_one_default(wanted: Sequence[EntryBuild]) -> None:
    defaults: dict[str, Entry] = {}
    for item in wanted:
        if item.recipe.default and (other := defaults.setdefault(item.entry.name, item.entry)) != item.entry:
            context, hint = f"{other} and {item.entry} both say `default: true`", "keep it in one of the recipes"
            message = f"{item.entry.name} has two default versions"
            raise InputError("two-defaults", message, context=context, hint=hint)
