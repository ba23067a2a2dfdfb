"""`envmgr lock`: resolve recipes and write their locks, or say which are stale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from envmgr.backends import Backend, LoadedLock, LockOptions, get_backend, locked_packages
from envmgr.catalog.entries import CatalogEntry
from envmgr.catalog.locks import LockChange, change_lines, diff_packages, require_lock_visible
from envmgr.catalog.names import catalog_of
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError, Interrupted, Written, failed_ones, joined_errors
from envmgr.report import Lines, Result
from envmgr.steps import Context
from envmgr.steps.lock_checks import Losses, entry_faults, judge_all, reading_entry, require_decided, why_failed
from envmgr.steps.lock_upgrade import having, names_in_lock
from envmgr.system.files import atomic_write, clear_temporaries, explain_os_error
from envmgr.system.untrusted_files import LOCK, read_bytes
from envmgr.verbs import All, AllowNetwork, DryRun, SomeEntries, needs, option
from envmgr.wording import counted

_USUAL = LockOptions()


LockStatus = Literal["written", "unchanged", "would write", "fresh", "stale", "faulty"]


@dataclass(frozen=True, slots=True)
class LockOutcome:
    """The outcome of one entry. `changes` are against the lock that was there.

    `reason` says why a lock is stale or faulty, and `mends` how to fix its faults.
    """

    entry: str
    status: LockStatus
    packages: int
    changes: tuple[LockChange, ...]
    notes: tuple[str, ...] = ()
    reason: str = ""
    mends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LockCommandResult(Result):
    schema: ClassVar[str] = "envmgr.lock/1"
    outcomes: tuple[LockOutcome, ...]
    check: bool
    dry_run: bool

    @property
    def exit_code(self) -> int:
        return 1 if any(o.status in ("stale", "faulty") for o in self.outcomes) else 0

    def lines(self) -> Lines:
        for outcome in self.outcomes:
            count = f"  {counted(outcome.packages, 'packages')}" if outcome.packages else ""
            yield f"{outcome.entry}: {outcome.status}{count}{f'  ({outcome.reason})' if outcome.reason else ''}"
            yield from change_lines(outcome.changes)
            for mend in outcome.mends:
                yield f"  hint: {mend}"
            for note in outcome.notes:
                yield f"  note: {note}"


@needs("prefix")
def lock(
    ctx: Context,
    entries: SomeEntries = None,
    everything: All = False,
    check: Annotated[
        bool, option("Write nothing; solve with the locked packages, and exit with 1 if a lock has others.")
    ] = False,
    upgrade: Annotated[
        list[str] | None,
        option("Move this package and what it needs, and keep the others as they are in the lock.", "PACKAGE"),
    ] = None,
    solver: Annotated[
        str | None, option("Solve with rattler, or with conda-lock and the site's conda.", "NAME")
    ] = None,
    channel: Annotated[list[str] | None, option("Use another place for a channel, this time only.", _PLACE)] = None,
    index: Annotated[list[str] | None, option("Use another place for a package index, this time only.", _PLACE)] = None,
    allow_network: AllowNetwork = False,
    dry_run: DryRun = False,
) -> LockCommandResult:
    """Resolve recipes exactly, and write their locks."""
    ctx = ctx.allowing(network=allow_network)
    places = dict(_pair(text) for text in (*(channel or ()), *(index or ())))
    options = LockOptions(solver, places, tuple(upgrade or ()))
    if check and options.upgrade:
        raise InputError("lock-options", "--check writes nothing, and --upgrade changes locks: give one of them")
    catalog = ctx.catalog
    found = catalog.entries() if everything else [catalog.find(catalog.parse(n)) for n in dict.fromkeys(entries or ())]
    if not found:
        raise InputError("nothing-named", "name at least one entry, or --all", hint="`envmgr list` shows what there is")
    # The shipped catalog is read-only, and its locks come with envmgr.
    if everything:
        found = [e for e in found if not e.shipped]
        if not found:
            hint = "`envmgr copy ENTRY` takes one into your own"
            raise InputError("nothing-to-lock", "only the shipped catalog has entries", hint=hint)
        if options.upgrade:
            found = having(found, options.upgrade, ctx.site)
    _require_known_channels(places, found, ctx.site)
    outcomes = []
    losses = Losses(allowed=True)
    with ctx.reporter.stage("lock", total=len(found), unit="entries") as stage:
        for number, entry in enumerate(found):
            stage.update(number, detail=str(entry.entry))
            with losses.of(entry.entry), reading_entry(entry.entry):
                outcomes.append(
                    _check(ctx, entry, options)
                    if check
                    else _lock(ctx, entry, options, dry_run=dry_run, each=not everything)
                )
        if losses.failed:
            raise _one_error(losses.failed, [o.entry for o in outcomes if o.status == "written"])
        stage.update(len(found))
    return LockCommandResult(tuple(outcomes), check=check, dry_run=dry_run)


def _one_error(failed: Mapping[str, EnvmgrError], written: Sequence[str]) -> EnvmgrError:
    """Return the first error, with the others' messages and the locks that were written. What several entries say alike
    is said once.
    """
    alike: dict[tuple[str, ...], EnvmgrError] = {}
    all_failed = failed_ones(failed)
    for entry, each in failed.items():
        said = (each.reference, each.message, *(line for line in each.context if line != f"entry {entry}"))
        first = alike.setdefault(said, each)
        if first is not each:
            first.context = (f"entry {entry}", *first.context)
    error = joined_errors([*alike.values()])
    if written:
        error.context = (*error.context, *([""] if len(alike) > 1 else []), f"written: {', '.join(written)}")
    error.failed, error.written = all_failed, Written(locks=tuple(written))
    return error


def _require_known_channels(places: Mapping[str, str], found: Sequence[CatalogEntry], site: Site) -> None:
    """Refuse a place for a channel that no recipe and no site has: it is a typing error, and the solve would use
    another place.
    """
    known: set[str] = set()
    for entry in found:
        with suppress(EnvmgrError), reading_entry(entry.entry):  # reported with its entry
            recipe = entry.recipe()
            known |= {*get_backend(recipe.backend).channels(recipe, site)}
    if unknown := sorted(set(places) - known):
        message = f"{unknown[0]}=…: neither the site nor these recipes have a channel or an index `{unknown[0]}`"
        raise InputError("unknown-channel", message, hint=f"known: {', '.join(sorted(known))}")


def _require_solver(backend: Backend, solver: str | None) -> None:
    if solver is not None and solver not in backend.solvers:
        known = f"known: {', '.join(backend.solvers)}" if backend.solvers else f"{backend.name} has none: leave it out"
        raise InputError("unknown-solver", f"there is no solver `{solver}`", hint=known)


def _lock(ctx: Context, entry: CatalogEntry, options: LockOptions, *, dry_run: bool, each: bool) -> LockOutcome:
    if not dry_run:
        entry.require_writable()
        clear_temporaries(entry.folder)
    recipe = entry.recipe()
    backend = get_backend(recipe.backend)
    try:
        _require_solver(backend, options.solver)
        old = locked_packages(entry.entry, recipe, entry.folder, ctx.site)
        if options.upgrade:
            options = names_in_lock(entry, backend, old, options, each=each)
        result = backend.lock(entry.entry, recipe, ctx.site, ctx.runner, ctx.reporter, options)
        judged = judge_all(entry.entry, recipe, result.facts, result.below)
        require_decided(result.problems, judged)
        for name, text in result.files.items():
            require_lock_visible(text, name)
    except EnvmgrError as error:
        error.context = (f"entry {entry.entry}", *error.context)
        raise
    there = [path for pattern in result.optional for path in sorted(entry.folder.glob(pattern))]
    gone = [path for path in there if str(path.relative_to(entry.folder)) not in result.files]
    same = not gone and all(_holds(entry.folder / name, text) for name, text in result.files.items())
    status: LockStatus = "unchanged" if same else ("would write" if dry_run else "written")
    if status == "written":
        with explain_os_error(entry.folder):
            for name, text in result.files.items():  # in the backend's order
                atomic_write(entry.folder / name, text)
            for path in gone:
                path.unlink()
                with suppress(OSError):  # other files lie beside it
                    path.parent.rmdir()
    changes = diff_packages(old, result.packages)
    stays = [
        f"{name} stays at {old[name]}: the recipe, and what there is, allow no other"
        for name in options.upgrade
        if name in old and old[name] == result.packages.get(name)
    ]
    removed = "would remove" if dry_run else "removed"
    lost = (f"{removed} {path.relative_to(entry.folder)}: the lock has no such part any more" for path in gone)
    notes = (*stays, *result.notes, *judged[-1][1].notes, *lost)
    return LockOutcome(str(entry.entry), status, len(result.packages), changes, notes)


def _holds(path: Path, text: str) -> bool:
    try:
        return read_bytes(path, LOCK, tree=catalog_of(path.parent)) == text.encode()
    except (OSError, InputError):
        return False


def _check(ctx: Context, entry: CatalogEntry, options: LockOptions) -> LockOutcome:
    """Check one entry. Nothing that its author wrote ends the check of other entries.

    Raises EnvmgrError if the solver cannot be asked.
    """
    lock = None
    try:
        recipe = entry.recipe()
        backend = get_backend(recipe.backend)
        _require_solver(backend, options.solver)
        lock, outcome = _judge(entry, recipe, backend, ctx.site)
    # Ctrl-C is an EnvmgrError as well, and is no fault of the entry.
    except Interrupted:
        raise
    except Exception as error:  # noqa: BLE001 - of any library that reads what others wrote
        return LockOutcome(str(entry.entry), "faulty", 0, (), reason=why_failed(error))
    return outcome if lock is None else _solve_again(ctx, lock, outcome, options)


def _judge(entry: CatalogEntry, recipe: Recipe, backend: Backend, site: Site) -> tuple[LoadedLock | None, LockOutcome]:
    """Return the lock, if it is sound, and what its text says."""
    try:
        lock = backend.load_lock(entry.entry, recipe, entry.folder, site)
        judged = judge_all(entry.entry, recipe, lock.facts, lock.below)
    except EnvmgrError as error:
        return None, LockOutcome(str(entry.entry), "stale", 0, (), reason=error.message)
    if faults := entry_faults(entry.entry, judged):
        reason = "; ".join(f"{fault.rule}: {fault.text}" for fault in faults)
        mends = tuple(dict.fromkeys(fault.mend for fault in faults if fault.mend))
        return None, LockOutcome(str(entry.entry), "faulty", len(lock.packages), (), reason=reason, mends=mends)
    notes = (*lock.notes, *judged[-1][1].notes)
    return lock, LockOutcome(str(entry.entry), "fresh", len(lock.packages), (), notes)


def _solve_again(ctx: Context, lock: LoadedLock, outcome: LockOutcome, options: LockOptions) -> LockOutcome:
    """Return the outcome after a solve: `faulty` if a solver does not choose just the packages of the lock."""
    try:
        found = lock.solve_again(ctx.site, ctx.runner, ctx.reporter, options)
    except EnvmgrError as error:
        if error.reference != "unsolvable":
            raise
        changes, reason = tuple[LockChange, ...](), f"its packages do not fit together: {' '.join(error.context[-3:])}"
    else:
        changes = () if found is None else diff_packages(lock.packages, found)
        reason = "a solver chooses other packages for the recipe"
        if not changes:
            return outcome
    mends = (f"`envmgr lock {outcome.entry}` writes it again",)
    return replace(outcome, status="faulty", changes=changes, reason=reason, mends=mends)


_PLACE = "NAME=URL-OR-FOLDER"


def _pair(text: str) -> tuple[str, str]:
    name, equals, place = text.partition("=")
    if not equals or not name or not place:
        raise InputError("bad-channel", f"`{text}` is not {_PLACE}")
    return name, place
