"""`envmgr verify --repair`: repair what differs: installs in their place, `current`, a generation as a new one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envmgr.backends import LoadedEntry
from envmgr.builds.install import may_repair, repair_install
from envmgr.builds.prepare import can_write, clean_leftovers
from envmgr.catalog.site import read_target
from envmgr.commands import Context, logged
from envmgr.commands.publish import publish_change
from envmgr.commands.resolved import ResolvedEntry, resolve_entry
from envmgr.commands.verify import PrefixLook, VerifyResult, VerifyWhat, is_in_the_way, look, trusted_owners
from envmgr.errors import EnvmgrError
from envmgr.publish.flip_checks import last_signed
from envmgr.publish.flips import known_current, last_current, told_records
from envmgr.publish.generations import repair_history, rollback
from envmgr.publish.plan import Change
from envmgr.publish.records import PublishedEntry, complete_numbers, read_records, way_back
from envmgr.publish.verify import newest_whole, verify_generation
from envmgr.store.jobtable import holding
from envmgr.store.manifest import Manifest, read_facts, read_manifest
from envmgr.store.prefix import Item
from envmgr.store.verify import Verified as Intact

_REASON = "verify --repair"


@dataclass(slots=True)
class _Plan:
    """The things to do. `installs` are in build order; a manifest is None where it is damaged too."""

    installs: dict[str, tuple[LoadedEntry, Item, Manifest | None]] = field(default_factory=dict)
    current: int | None = None
    history: bool = False
    generation: int | None = None
    modules: tuple[ResolvedEntry, ...] | None = None  # of all entries, where the generation cannot be read
    old: dict[int, int | None] = field(default_factory=dict)  # which is not current -> its new number, once it has one
    # What stands on `installs`, where there is no `current` to put a generation on.
    beside: tuple[int, ...] | None = None

    def lines(self, *, published: bool = False) -> tuple[str, ...]:
        """Return the things to do, one line each. `published`: a generation was published, also where only an install
        showed the need.
        """
        new = published or any(manifest is None for _, _, manifest in self.installs.values())
        again = self.generation is not None or (new and self.beside is None)
        what = "the current generation" if self.generation is None else f"generation {self.generation}"
        return (
            *self.installs,
            *(["current"] if self.current is not None else []),
            *(["the history"] if self.history else []),
            *([f"{what}, as a new one"] if again else []),
            *(f"generation {old}, as {made or 'a new one'}, which is not current" for old, made in self.old.items()),
        )


def repair_entries(ctx: Context, what: VerifyWhat, *, dry_run: bool) -> VerifyResult:
    """Look, make again what differs, look again.

    Raises:
        EnvmgrError: `repair-impossible` before anything is done; what a build or a publish raises.
    """
    if not dry_run and os.access(ctx.prefix.store, os.W_OK):
        clean_leftovers(ctx.prefix, ctx.reporter)  # of a repair that was killed once all was right again, too
    seen = look(ctx, what)
    plan = _plan(ctx, seen)
    if dry_run or not plan.lines():
        return replace(seen.result(), repaired=plan.lines(), dry_run=dry_run)
    can_write(ctx.site, [made_by.lock.backend for made_by, _, _ in plan.installs.values()])
    with logged(ctx, "repair") as (inner, log):
        items = [item for _, item, _ in plan.installs.values()]
        below = {each.relative for item in items for each in (*item.needs, *item.build_needs)}
        with holding(ctx.prefix, plan.installs.keys() | below, ctx.runner, inner.reporter):
            number = _repair(inner, plan)
    # What is current now counts, and not the generations that were published again.
    kept = tuple(n for n in what.generations if n == known_current(ctx.prefix))
    after = look(ctx, replace(what, generations=kept))
    lines = plan.lines(published=number is not None)
    return replace(after.result(), repaired=lines, generation=number, log=str(log))


def _plan(ctx: Context, seen: PrefixLook) -> _Plan:
    plan = _Plan()
    # Others are for `gc`.
    wrong = [path for path, lines in seen.installs.items() if lines and path in seen.users]
    lost = []
    loaded: dict[str, ResolvedEntry | EnvmgrError] = {}
    for path in wrong:
        for name in seen.users[path]:
            loaded.setdefault(name, _load(ctx, name))
        found = [loaded[name] for name in seen.users[path]]
        if (made := _made_by(path, [each for each in found if isinstance(each, ResolvedEntry)])) is None:
            why = next((each.message for each in found if isinstance(each, EnvmgrError)), _MOVED)
            lost.append(f"{path}: {why}")
            continue
        may_repair(*made, ctx.runner)
        plan.installs[path] = (*made, _sound_manifest(made[1], seen.installs[path]))
    if lost:
        raise EnvmgrError(
            "repair-impossible",
            "not all that differs can be made again",
            context=lost,
            hint="bring back the recipe and the lock that it was built from, or build and publish the entry as it is "
            "now",
        )
    in_order = [item for each in loaded.values() if isinstance(each, ResolvedEntry) for item in each.items]
    order = {item.install.relative: place for place, item in enumerate(in_order)}
    plan.installs = dict(sorted(plan.installs.items(), key=lambda pair: order.get(pair[0], 0)))
    _plan_generation(ctx, seen, plan)
    return plan


_MOVED = "the lock in the catalog is not the one that it was built from"


def _load(ctx: Context, name: str) -> ResolvedEntry | EnvmgrError:
    try:
        return resolve_entry(ctx, ctx.catalog.find(ctx.catalog.parse(name)), read_target(ctx.site.cpu_level))
    except EnvmgrError as error:
        return error


def _made_by(path: str, wanted: Sequence[ResolvedEntry]) -> tuple[LoadedEntry, Item] | None:
    parts = [(part.made_by, item) for each in wanted for part in each.parts for item in part.items]
    return next(((made_by, item) for made_by, item in parts if item.install.relative == path), None)


def _sound_manifest(item: Item, lines: Sequence[str]) -> Manifest | None:
    """Return the manifest; None where something was found wrong with it. EnvmgrError `format-unknown` for one of a
    later envmgr.
    """
    name = item.install.manifest.name
    sound = not any(line.startswith((f"{name}:", f"{item.install.manifest} ")) for line in lines)
    try:
        manifest = read_manifest(item.install.manifest)
    except EnvmgrError as error:
        if sound or error.reference == "format-unknown":
            raise
        return None
    return manifest if sound else None


def _plan_generation(ctx: Context, seen: PrefixLook, plan: _Plan) -> None:
    current = known_current(ctx.prefix)
    plan.history = bool(seen.history)
    plan.old = dict.fromkeys(_old_to_make(ctx, seen, current))
    if seen.current:
        sound = [n for n in complete_numbers(ctx.prefix) if n in seen.generations and not seen.generations[n].faults]
        last = last_current(ctx.prefix)
        if last in sound and not is_in_the_way(ctx.prefix):
            _require_newest(ctx, last)
            plan.current = last
        elif plan.installs or plan.old:
            plan.beside = _standing_on(seen, plan)
        else:
            raise EnvmgrError(
                "repair-impossible",
                "`current` cannot be made again",
                context=[f"current: {f.found}" for f in seen.current],
                hint=seen.way_back,
            )
    looked = seen.generations.get(current) if current is not None else None
    if looked is None and current is not None and current not in read_records(ctx.prefix)[0]:
        plan.beside = _standing_on(seen, plan)
    if looked is None or not looked.faults:
        return
    plan.generation = current
    if looked.can_be_made_again:
        return
    names = sorted(looked.record.entries) if looked.record is not None else []
    wanted = [_load(ctx, name) for name in names]
    wrong = [
        f"{name}: {each.message}" for name, each in zip(names, wanted, strict=True) if isinstance(each, EnvmgrError)
    ]
    wrong += [
        f"{each.entry}: {_MOVED}"
        for each in wanted
        if isinstance(each, ResolvedEntry)
        and looked.record is not None
        and each.install.relative != looked.record.entries[str(each.entry)].path
    ]
    if wrong or not names:
        whole = newest_whole(ctx.prefix, told_records(ctx.prefix), trusted_owners(ctx))
        raise EnvmgrError(
            "repair-impossible",
            f"generation {current} cannot be published again: what it holds is not known",
            context=wrong,
            hint=seen.way_back or way_back(ctx.prefix, whole),
        )
    plan.modules = tuple(each for each in wanted if isinstance(each, ResolvedEntry))


def _require_newest(ctx: Context, last: int) -> None:
    """Raise EnvmgrError `repair-impossible` where a signed flip is newer than all that the history says."""
    right = last_signed(ctx.prefix, ctx.signer)
    if right not in (None, last):
        back = f"`envmgr rollback {right}` makes that one current"
        raise EnvmgrError(
            "repair-impossible",
            f"`current` cannot be made again: a signed flip is newer than all that {ctx.prefix.history} tells",
            context=[f"the history's last generation is {last}, that of the flip is {right}"],
            hint=back if right in complete_numbers(ctx.prefix) else way_back(ctx.prefix, last),
        )


def _standing_on(seen: PrefixLook, plan: _Plan) -> tuple[int, ...]:
    """Return generations that name an install of the plan, and have everything that a new one is made from."""
    again = {number: looked for number, looked in seen.generations.items() if looked.can_be_made_again}
    return tuple(
        number
        for number, looked in again.items()
        if looked.record is not None and not plan.installs.keys().isdisjoint(looked.record.installs)
    )


def _old_to_make(ctx: Context, seen: PrefixLook, current: int | None) -> Iterator[int]:
    """Yield damaged generations that are not current, and can serve for a rollback again.

    It must be known what each holds, and no other sound generation may hold the same.
    """
    records, recorded, owners = read_records(ctx.prefix)[0], told_records(ctx.prefix), trusted_owners(ctx)
    taken: list[Mapping[str, PublishedEntry]] = []
    for number, looked in sorted(seen.generations.items(), reverse=True):
        record = looked.record
        if number == current or not looked.faults or record is None or record.entries in taken:
            continue
        if not looked.can_be_made_again:
            continue
        same = [n for n, each in records.items() if n != number and each.entries == record.entries]
        if not any(not verify_generation(ctx.prefix, n, recorded, owners).faults for n in same):
            taken.append(record.entries)
            yield number


def _repair(ctx: Context, plan: _Plan) -> int | None:
    """Return the number of the generation that it published; None for none."""
    intact = Intact()
    new = set()
    # Installs come first: a rollback refuses a generation whose installs are gone.
    for path, (made_by, item, manifest) in plan.installs.items():
        made_by.lock.prepare([item], ctx.site, ctx.runner, ctx.reporter)
        jobs = len(os.sched_getaffinity(0))
        if repair_install(made_by, item, manifest, ctx.site, ctx.runner, ctx.reporter, jobs=jobs, verified=intact):
            new.add(path)
    if plan.current is not None:
        rollback(plan.current, ctx.prefix, ctx.runner, ctx.reporter, signer=ctx.signer)
    if plan.history:
        repair_history(ctx.prefix, ctx.runner, ctx.reporter, signer=ctx.signer)
    if new and plan.beside:
        plan.old |= dict.fromkeys(plan.beside)
    if plan.generation is None and not new and not plan.old:
        return None
    lmod = ctx.find_lmod()
    for old in plan.old:
        again = Change({}, (), f"{_REASON} of generation {old}", frozenset(new), anew=True, base=old)
        plan.old[old] = publish_change(ctx, again, lmod, []).number
    if plan.generation is None and (not new or plan.beside is not None):
        return None
    add = {str(each.entry): each.module(read_facts(each.install)) for each in plan.modules or ()}
    change = Change(add, (), _REASON, frozenset(new), anew=True, whole=plan.modules is not None)
    return publish_change(ctx, change, lmod, []).number
