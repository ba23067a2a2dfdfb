"""The work of a build that has something to do: make the missing installs, publish what the plan says, lose only what
failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envmgr.backends import LoadedEntry
from envmgr.builds import BuildJob, Ensured
from envmgr.builds.install import ensure_install
from envmgr.builds.prepare import can_write, clean_leftovers, require_space
from envmgr.builds.schedule import Outcome, Work, make_all, raise_first
from envmgr.errors import EnvmgrError, Written, failed_ones
from envmgr.images import ImageRow
from envmgr.publish.plan import BuildPlan
from envmgr.smoke import SmokeOutcome
from envmgr.steps import Context, logged
from envmgr.steps.image import make_each
from envmgr.steps.lock_checks import Losses
from envmgr.steps.resolved import EntryBuild
from envmgr.store.jobtable import holding
from envmgr.store.manifest import InstallFacts
from envmgr.store.prefix import Item
from envmgr.store.verify import Verified
from envmgr.system.squashfs import Maker, find_maker

if TYPE_CHECKING:
    from envmgr.builds.slurm import Submitter
    from envmgr.nodes.jobs import JobOptions
    from envmgr.publish.generations import PublishedChange


@dataclass(frozen=True, slots=True)
class BuildRun:
    """The work that was done, in the fields of `BuildResult`."""

    built: tuple[str, ...]
    trees: dict[str, str]
    log: str
    jobs: tuple[BuildJob, ...]
    parent: int | None
    generation: int | None = None
    tests: tuple[SmokeOutcome, ...] = ()
    images: tuple[ImageRow, ...] = ()


def run_build(
    ctx: Context,
    wanted: Sequence[EntryBuild],
    plan: BuildPlan,
    losses: Losses,
    *,
    reason: str,
    publish: bool,
    jobs: int,
    slurm: JobOptions | None,
    candidate: bool = False,
) -> BuildRun:
    """Make what is missing of `wanted`, and publish what `plan` says.

    `reason` is the generation's. The rest is as in `build_entries`.

    Raises:
        EnvmgrError: of what failed first, with what was written all the same.
    """
    imaged = ctx.site.images.chosen(str(item.entry) for item in wanted) if publish else []
    maker = find_maker(ctx.runner) if imaged else None
    if publish:
        ctx.find_lmod()  # missing: say so before the download, not after
    for item in wanted:
        with losses.of(item.entry):
            for made_by, _ in _to_make(item):
                made_by.lock.may_build()
    wanted = _not_lost(wanted, losses)
    # Before `logged`, because the log itself lies below the prefix.
    can_write(ctx.site, [made_by.lock.backend for item in wanted for made_by, _ in _to_make(item)])
    uses = {each.install.relative for item in wanted for each in item.items}
    with logged(ctx, "build") as (inner, log), holding(ctx.prefix, uses, ctx.runner, inner.reporter):
        _sweep(ctx)
        clean_leftovers(ctx.prefix, inner.reporter)
        missing = {s.planned.entry for s in plan.to_build}
        locks = {each.lock.entry: each.lock for w in wanted if w.entry in missing for each, _ in _to_make(w)}
        require_space([*locks.values()], ctx.site)
        for item in wanted:
            for made_by, missing_items in _to_make(item):
                for note in made_by.lock.notes:
                    inner.reporter.say(f"{made_by.lock.entry}: {note}")
                with losses.of(item.entry):
                    made_by.lock.prepare(missing_items, ctx.site, ctx.runner, inner.reporter, elsewhere=slurm)
        wanted = _not_lost(wanted, losses)
        ensured, made, sent = _ensure_all(inner, wanted, jobs, slurm, losses, publish=publish)
        wanted = _not_lost(wanted, losses)
        written = Written(installs=tuple(made))
        built = tuple(name for name, e in ensured.items() if e.built)
        trees = {name: e.tree for name, e in ensured.items()}
        result = BuildRun(built, trees, str(log), sent, plan.current)
        if publish:
            facts = {name: e.facts for name, e in ensured.items()}
            if done := _publish_rest(inner, wanted, plan, facts, made, reason, slurm, losses, candidate=candidate):
                published, tests = done
                result = replace(result, tests=tests, generation=published.number, parent=published.parent)
                names = _changed(plan, _not_lost(wanted, losses))
                written = replace(written, published=names, generation=published.number)
        losses.raise_first(written)
        if maker is not None and result.generation is not None:
            result = replace(result, images=_make_images(inner, wanted, imaged, maker, written))
    _sweep(ctx)  # what a submitter left that was killed, of what we have built here
    return result


def _make_images(
    ctx: Context, wanted: Sequence[EntryBuild], imaged: Sequence[str], maker: Maker, written: Written
) -> tuple[ImageRow, ...]:
    """Make the images that the site wants, after the publish: no lock is held, and modules do not need them."""
    of: dict[str, tuple[str, ...]] = {}
    for item in wanted:
        for each in item.items if str(item.entry) in imaged else ():
            of[each.install.relative] = (*of.get(each.install.relative, ()), str(item.entry))
    try:
        return make_each(ctx, of, maker)
    except EnvmgrError as error:
        error.written = written
        raise


def _publish_rest(
    ctx: Context,
    wanted: Sequence[EntryBuild],
    plan: BuildPlan,
    facts: Mapping[str, InstallFacts],
    fresh: Sequence[str],
    reason: str,
    slurm: JobOptions | None,
    losses: Losses,
    *,
    candidate: bool,
) -> tuple[PublishedChange, tuple[SmokeOutcome, ...]] | None:
    """Publish what is not lost; return None where nothing is left that would change a generation.

    Entries are lost too whose tests fail, or whose install has changed.
    """
    from envmgr.steps.publish import publish_wanted  # slow to load, and a job that only builds needs none of it

    while not losses.failed or _changed(plan, wanted):
        try:
            return publish_wanted(
                ctx, wanted, plan, facts, fresh=fresh, reason=reason, slurm=slurm, candidate=candidate
            )
        except EnvmgrError as error:
            error.written = Written(installs=tuple(fresh))
            wanted = _without_failed(error, wanted, losses)
    return None


def _changed(plan: BuildPlan, wanted: Sequence[EntryBuild]) -> tuple[str, ...]:
    here = {item.entry for item in wanted}
    return tuple(str(step.planned.entry) for step in plan.to_publish if step.planned.entry in here)


def _without_failed(error: EnvmgrError, wanted: Sequence[EntryBuild], losses: Losses) -> list[EntryBuild]:
    """Return `wanted` without the entries that `error` is about.

    Raises the error, with what was lost before, where it is about other things, or nothing may be lost.
    """
    failed = {each.what for each in error.failed}
    if not losses.allowed or not failed & {str(item.entry) for item in wanted}:
        error.failed = (*error.failed, *failed_ones(losses.failed))
        error.context = (*error.context, *(f"{name} failed too: {e.message}" for name, e in losses.failed.items()))
        raise error
    for item in wanted:
        if str(item.entry) in failed:
            with losses.of(item.entry):
                raise error
    return _not_lost(wanted, losses)


def _not_lost(wanted: Sequence[EntryBuild], losses: Losses) -> list[EntryBuild]:
    """Return the entries of `wanted`, which has dependencies first, that are not lost."""
    return [
        item
        for item in wanted
        if str(item.entry) not in (*losses.failed, *losses.left)
        and not losses.stand_on_lost(item.entry, item.recipe.depends)
    ]


def _sweep(ctx: Context) -> None:
    if ctx.prefix.slurm_jobs.is_dir():  # else there is nothing to import that for
        from envmgr.builds.slurm import sweep

        sweep(ctx.site, ctx.runner)


def _ensure_all(
    ctx: Context, wanted: Sequence[EntryBuild], jobs: int, slurm: JobOptions | None, losses: Losses, *, publish: bool
) -> tuple[dict[str, Ensured], list[str], tuple[BuildJob, ...]]:
    """Build each wanted install that is missing, with what it needs.

    All are tried; then the first error is raised, or put down among the losses. Returns the installs by entry, the
    paths of those that were made, and the Slurm jobs that made them.
    """
    own = {item.install.relative: Work(item.recipe, item.lock, item.items[-1]) for item in wanted}
    sent: tuple[BuildJob, ...] = ()
    verified = Verified()

    def make(each: Work, cores: int) -> Ensured:
        return ensure_install(
            each.recipe, each.lock, each.item, ctx.site, ctx.runner, ctx.reporter, jobs=cores, verified=verified
        )

    if slurm is None:
        outcome = make_all(_missing(wanted), ctx.runner, jobs=jobs, make=make)
    else:
        from envmgr.builds.slurm import follow

        queued = _submitter(ctx, wanted, slurm).submit(_missing(wanted))
        outcome = follow(queued, ctx.site, ctx.runner, ctx.reporter)
        sent = tuple(build.result() for build in queued)
    if not losses.allowed:
        raise_first(outcome, {item.install.relative: str(item.entry) for item in wanted})
    ensured: dict[str, Ensured] = {}
    for item in wanted:
        with losses.of(item.entry):
            _raise_own(item, outcome)
            made_now = outcome.done.get(item.install.relative)
            # An install that was there before is not in `outcome`: this reads its facts, under its lock.
            result = made_now or make(own[item.install.relative], jobs)
            if publish:  # an install without a module changes nobody's shell
                item.require_none_hidden(result.facts)
            ensured[str(item.entry)] = result
    made = [label for label, e in outcome.done.items() if e.built]
    return ensured, made, sent


def _raise_own(item: EntryBuild, outcome: Outcome) -> None:
    """Raise the error of the first install of this entry that failed; an install that was not tried needs one that
    failed.
    """
    for each in item.items:
        if (error := outcome.failed.get(each.install.relative)) is not None:
            raise error


def _to_make(item: EntryBuild) -> list[tuple[LoadedEntry, list[Item]]]:
    """Return the missing installs of an entry and of the entries below it, in build order, by what makes them."""
    missing = {each.install for each in item.missing}
    parts = [(part.made_by, [each for each in part.items if each.install in missing]) for part in item.parts]
    return [(made_by, items) for made_by, items in parts if items]


def _missing(wanted: Sequence[EntryBuild]) -> list[Work]:
    """Return the missing installs, each once, in build order."""
    made_by = [(made_by, each) for item in wanted for made_by, items in _to_make(item) for each in items]
    found = [Work(made.recipe, made.lock, each) for made, each in made_by]
    return list({work.label: work for work in found}.values())


def _submitter(ctx: Context, wanted: Sequence[EntryBuild], slurm: JobOptions) -> Submitter:
    from envmgr.builds.slurm import Submitter

    made_by = (part.made_by for item in wanted for part in item.parts)
    folders = {str(each.lock.entry): each.folder for each in made_by}
    return Submitter(ctx.site, slurm, folders, ctx.runner, ctx.reporter)


def planned_jobs(ctx: Context, wanted: Sequence[EntryBuild], slurm: JobOptions) -> tuple[BuildJob, ...]:
    return tuple(build.result() for build in _submitter(ctx, wanted, slurm).look(_missing(wanted)))
