"""`envmgr build --again`: make installs again from the locks of the catalog, and exchange those that are damaged."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from envmgr.builds.again import AgainWork, exchange_install, made_again, require_own_mounts
from envmgr.builds.prepare import can_write, clean_leftovers, require_space
from envmgr.catalog.site import read_target
from envmgr.errors import EnvmgrError, InputError
from envmgr.publish.flips import known_current
from envmgr.publish.plan import Change
from envmgr.publish.verify import named_manifests
from envmgr.report import Lines, Result
from envmgr.steps import Context, logged, trusted_owners
from envmgr.steps.publish import look_at_generation, publish_change
from envmgr.steps.resolved import EntryBuild, current_entries, resolve_entry
from envmgr.store.jobtable import holding
from envmgr.store.manifest import Manifest, read_manifest
from envmgr.store.prefix import Install
from envmgr.store.verify import changed_rows, verify_install
from envmgr.system.locks import file_lock

Outcome = Literal["same", "replaced", "renewed", "differs"]


@dataclass(frozen=True, slots=True)
class AgainInstall:
    """One install that was made again, or would be: then `outcome` is null.

    `damage` is how the install in place differed from its manifest. `other` are the files that are other ones than its
    manifest says. `outcome` of a sound install is `same`, or `differs` if it was made again with other bytes: it stays as
    it is. `outcome` of a damaged one is `replaced` if it is again what its manifest says, else `renewed`: it has a new
    manifest.
    """

    path: str
    damage: tuple[str, ...]
    outcome: Outcome | None = None
    other: tuple[str, ...] = ()


_AGAIN = {
    None: "would be made again",
    "same": "sound, and the same bytes when it is made again",
    "replaced": "was damaged, and was made again in its place",
    "renewed": "was damaged, and was made again in its place, with a new manifest",
    "differs": "sound, but it has other bytes when it is made again: it stays as it is",
}


@dataclass(frozen=True, slots=True)
class AgainResult(Result):
    """The result of `build --again`. `generation` is the new one, where manifests of the current one are new."""

    schema: ClassVar[str] = "envmgr.build-again/1"
    installs: tuple[AgainInstall, ...]
    dry_run: bool
    generation: int | None = None
    log: str | None = None

    @property
    def exit_code(self) -> int:
        return int(any(each.outcome == "differs" for each in self.installs))

    def lines(self) -> Lines:
        for each in self.installs:
            yield f"{each.path}: {_AGAIN[each.outcome]}"
            for line in (*each.damage, *(f"made again: {line}" for line in each.other)):
                yield f"  {line}"
        if self.generation is not None:
            yield f"generation {self.generation} is current"
        if self.log is not None:
            yield f"log: {self.log}"


def build_entries_again(ctx: Context, names: Sequence[str], *, jobs: int, dry_run: bool) -> AgainResult:
    """Make the damaged installs of the entries again; where none is damaged, the entries' own, to compare.

    Raises:
        EnvmgrError: `again-impossible`, `not-built` before anything is done; what a build or a publish raises. Installs
            that were exchanged before an error stay so.
    """
    if not names:
        raise InputError("nothing-named", "name the entries to build again", hint="`envmgr verify` lists what differs")
    if not dry_run and os.access(ctx.prefix.store, os.W_OK):
        clean_leftovers(ctx.prefix, ctx.reporter)
    todo, sound = _find_work(ctx, names)
    for work in todo:
        require_own_mounts(work, ctx.runner)
    if dry_run:
        return AgainResult(tuple(AgainInstall(work.install.relative, work.damage) for work in todo), True)
    for work in todo:
        work.made_by.lock.may_build()
    can_write(ctx.site, [work.made_by.lock.backend for work in todo])
    uses = {i.relative for work in todo for i in (work.install, *work.item.needs, *work.item.build_needs)}
    with logged(ctx, "build") as (inner, log), holding(ctx.prefix, uses | sound, ctx.runner, inner.reporter):
        require_space(list({work.made_by.lock.entry: work.made_by.lock for work in todo}.values()), ctx.site)
        made = []
        for work in todo:
            made.append(_make(inner, work, jobs, sound))
            sound.add(work.install.relative)
        generation = _publish(inner, names, {each.path for each in made if each.outcome == "renewed"})
    return AgainResult(tuple(made), False, generation, str(log))


def maker_of(ctx: Context, path: str, names: Sequence[str]) -> tuple[str, str]:
    """Return the entry of `names` by which `build --again` makes an install again, and an empty text; where there is
    none, the first one, and why.
    """
    why = ""
    for name in names:
        try:
            if any(item.install.relative == path for item in _resolve(ctx, name).items):
                return name, ""
            why = why or _MOVED
        except EnvmgrError as error:
            why = why or error.message
    return names[0], why


_MOVED = "the lock in the catalog is not the one that it was built from"


def _resolve(ctx: Context, name: str) -> EntryBuild:
    return resolve_entry(ctx, ctx.catalog.find(ctx.catalog.parse(name)), read_target(ctx.site.cpu_level))


def _find_work(ctx: Context, names: Collection[str]) -> tuple[list[AgainWork], set[str]]:
    """Return what is to be made, in build order, and the installs of the same locks that are sound."""
    resolved = {name: _resolve(ctx, name) for name in names}
    if not ctx.prefix.root.is_dir():
        raise _not_built(next(iter(resolved)))
    named, owners = named_manifests(ctx.prefix), trusted_owners(ctx)
    rows: dict[str, AgainWork] = {}
    chosen: set[str] = set()

    def is_absent(install: Install) -> bool:
        return not (install.relative in named or os.path.lexists(install.path) or os.path.lexists(install.manifest))

    for name, wanted in resolved.items():
        for part in wanted.parts:
            for item in part.items:
                path = item.install.relative
                if path not in rows:
                    rows[path] = AgainWork(part.made_by, item, _damage(ctx, item.install, named.get(path), owners))
        own = [rows[item.install.relative] for item in wanted.items if item.install.relative in rows]
        damaged = {work.install.relative for work in own if work.damage and not is_absent(work.install)}
        if not damaged:
            _require_own(ctx, name, wanted.install, absent=is_absent(wanted.install))
        chosen |= damaged or {wanted.install.relative}
    for path, work in reversed(rows.items()):
        if path in chosen:  # what only its build needed may be gone
            chosen |= {i.relative for i in (*work.item.needs, *work.item.build_needs) if is_absent(i)}
    return [work for path, work in rows.items() if path in chosen], {p for p, work in rows.items() if not work.damage}


def _damage(ctx: Context, install: Install, named: str | None, owners: frozenset[int] | None) -> tuple[str, ...]:
    try:
        return verify_install(install, ctx.reporter, named=named, owners=owners).wrong
    except EnvmgrError as error:
        if error.reference == "format-unknown":
            raise
        return (error.message, *error.context[:1])


def _require_own(ctx: Context, name: str, own: Install, *, absent: bool) -> None:
    """Raise EnvmgrError `again-impossible` where the catalog would make another install than the one that is published,
    `not-built` where there is none.
    """
    published = current_entries(ctx.prefix).get(name)
    if published is not None and published.path != own.relative:
        context = [f"published   {published.path}", f"the catalog {own.relative}"]
        back = "bring back the recipe and the lock that it was built from"
        hint = f"{back}; or `envmgr build {name}` publishes it as it is now"
        raise EnvmgrError("again-impossible", f"{name} cannot be built again: {_MOVED}", context=context, hint=hint)
    if absent:
        raise _not_built(name)


def _not_built(name: str) -> EnvmgrError:
    return EnvmgrError("not-built", f"{name} is not built", hint=f"run `envmgr build {name}`")


def _make(ctx: Context, work: AgainWork, jobs: int, sound: Collection[str]) -> AgainInstall:
    """Make the install again, and exchange it if the one in place is damaged: else it stays, whatever was made."""
    install, known, (runner, reporter) = work.install, _known(work), (ctx.runner, ctx.reporter)
    work.made_by.lock.prepare([work.item], ctx.site, runner, reporter)

    def waiting(holder: str) -> None:
        reporter.say(f"{install.entry}: waiting for {holder}, which builds it")

    with (
        file_lock(install.lock, on_wait=waiting, check=runner.raise_if_cancelled) as held,
        made_again(work, install.again, ctx.site, runner, reporter, jobs=jobs, sound=sound) as made,
    ):
        other = () if known is None else tuple(changed_rows(known, made.manifest))
        if not work.damage:
            return AgainInstall(install.relative, (), "differs" if other else "same", other)
        held.require()
        exchange_install(install, made, ctx.site, None if other else known)
    renewed = known is None or other
    return AgainInstall(install.relative, work.damage, "renewed" if renewed else "replaced", other)


def _known(work: AgainWork) -> Manifest | None:
    """Return the manifest; None where something was found wrong with it."""
    file = work.install.manifest
    if any(line.startswith((f"{file.name}:", f"{file} ")) for line in work.damage):
        return None
    return read_manifest(file)


def _publish(ctx: Context, names: Sequence[str], renewed: Collection[str]) -> int | None:
    """Publish what is current again, if it names installs that have a new manifest, and it is known what it holds.
    Return the new generation.
    """
    current = known_current(ctx.prefix)
    looked = None if current is None else look_at_generation(ctx, current)
    if looked is None or looked.record is None or looked.record.installs.keys().isdisjoint(renewed):
        return None
    if not looked.can_be_made_again:
        ctx.reporter.say(f"generation {current} is damaged: `envmgr verify` tells what leads on")
        return None
    change = Change({}, (), f"build --again {' '.join(names)}", frozenset(renewed), anew=True)
    return publish_change(ctx, change, ctx.find_lmod(), []).number
