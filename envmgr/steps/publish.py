"""`envmgr publish`: publish built entries to users. This is also the last step of `envmgr build`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from envmgr.builds.prepare import can_write
from envmgr.catalog.site import read_target
from envmgr.errors import EnvmgrError, failed_ones
from envmgr.modules.lmod import Lmod
from envmgr.modules.spec import ModuleSpec
from envmgr.publish.flips import flips, told_records
from envmgr.publish.generations import PublishedChange, publish
from envmgr.publish.plan import BuildPlan, Change, PlanStep
from envmgr.publish.records import BUILD
from envmgr.publish.verify import LookedAt, verify_generation
from envmgr.report import Lines, Result
from envmgr.smoke import SmokeOutcome, outcome_lines
from envmgr.smoke.here import raise_for_failures, run_smoke_tests
from envmgr.steps import Context, logged, published_record, require_published, trusted_owners
from envmgr.steps.extras import generation_extras
from envmgr.steps.plan_text import nothing_lines, plan_lines, published_lines
from envmgr.steps.resolved import ResolvedEntry, plan_for, resolve_entry, resolve_named
from envmgr.steps.status import keep_status
from envmgr.store.manifest import InstallFacts, read_facts
from envmgr.store.verify import require_unchanged
from envmgr.system.files import shipped

if TYPE_CHECKING:  # a build that is no Slurm job needs none of it
    from envmgr.nodes.jobs import JobOptions


@dataclass(frozen=True, slots=True)
class PublishResult(Result):
    """The result of a publish. `generation` is None if nothing had to change; it is current, or a `candidate`.
    `removed` are the entries that it took out, or would.
    """

    schema: ClassVar[str] = "envmgr.publish/2"
    steps: tuple[PlanStep, ...]
    rerender: bool
    dry_run: bool
    generation: int | None
    parent: int | None
    tests: tuple[SmokeOutcome, ...]
    log: str | None
    candidate: bool = False
    removed: tuple[str, ...] = ()

    def lines(self) -> Lines:
        if self.dry_run:
            yield from plan_lines(self.steps, rerender=self.rerender, removed=self.removed)
        elif self.log is None:
            yield from nothing_lines(self.steps, self.parent, built_only=False)
        else:
            yield from outcome_lines(self.tests)
            yield from published_lines(self.generation, self.parent, self.steps, candidate=self.candidate)
            for name in self.removed:
                yield f"  - {name}"
            yield f"log: {self.log}"


def publish_entries(
    ctx: Context,
    names: Sequence[str],
    *,
    dry_run: bool = False,
    candidate: bool = False,
    remove: Sequence[str] = (),
    reason: str = "",
) -> PublishResult:
    """Publish the named entries, or with no names everything that is built and differs from `current`, and what is
    current again, if its files are damaged; without the entries to `remove`. As a `candidate` the generation does not become current. `reason` is for the history.

    Raises:
        EnvmgrError: `not-built`; `smoke-test-failed`; `current` is then untouched.
        InputError: `not-published` for an entry to remove.
    """
    if remove:
        require_published(remove, published_record(ctx))
    # What is to go is often still in the catalog.
    wanted = [each for each in (resolve_named(ctx, names) if names else _built(ctx)) if str(each.entry) not in remove]
    plan, _ = plan_for(ctx, wanted)
    anew = not names and _is_damaged(ctx, plan.current)
    plan = replace(plan, rerender=plan.rerender or anew)
    missing = [str(s.planned.entry) for s in plan.to_build]
    if missing:
        raise EnvmgrError(
            "not-built", f"{', '.join(missing)} is not built", hint=f"run `envmgr build {' '.join(missing)}`"
        )
    if not names and not wanted and plan.current is None and flips(ctx.prefix):
        raise EnvmgrError(
            "nothing-published",
            "no generation is left, and nothing is built that the catalog has",
            context=str(ctx.prefix.root),
            hint=f"bring back what was lost from a backup; or {BUILD}",
        )
    if dry_run or not (plan.publishes or remove):
        return PublishResult(plan.steps, plan.rerender, dry_run, None, plan.current, (), None, candidate, tuple(remove))
    can_write(ctx.site)
    with logged(ctx, "publish") as (inner, log):
        facts = {str(w.entry): read_facts(w.install) for w in wanted}
        for item in wanted:
            item.require_none_hidden(facts[str(item.entry)])
        published, tests = publish_wanted(
            inner,
            wanted,
            plan,
            facts,
            fresh=(),
            reason=reason or f"publish {' '.join(names)}".strip(),
            remove=remove,
            candidate=candidate,
            anew=anew,
        )
    return PublishResult(
        plan.steps, plan.rerender, False, published.number, published.parent, tests, str(log), candidate, tuple(remove)
    )


def _is_damaged(ctx: Context, number: int | None) -> bool:
    """Return whether files of the current generation are not as they were published, but those that a new one is made
    from are.
    """
    looked = None if number is None else look_at_generation(ctx, number)
    if looked is None or not looked.faults or not looked.can_be_made_again:
        return False
    ctx.reporter.say(f"generation {number} is damaged: the same entries are published again")
    return True


def look_at_generation(ctx: Context, number: int) -> LookedAt:
    return verify_generation(ctx.prefix, number, told_records(ctx.prefix), trusted_owners(ctx))


def publish_wanted(
    ctx: Context,
    wanted: Sequence[ResolvedEntry],
    plan: BuildPlan,
    facts: Mapping[str, InstallFacts],
    *,
    fresh: Sequence[str],
    reason: str,
    slurm: JobOptions | None = None,
    candidate: bool = False,
    remove: Sequence[str] = (),
    anew: bool = False,
) -> tuple[PublishedChange, tuple[SmokeOutcome, ...]]:
    """Verify, stage, test, flip. `fresh` are the installs made in this run, by their paths relative to the prefix.

    `slurm` is as for `publish_change`.
    """
    changing = {str(s.planned.entry): s for s in plan.to_publish}
    for item in wanted:
        step = changing.get(str(item.entry))
        if step and step.publish in ("new", "changed"):
            # What was made in this run had its manifest just made from the tree.
            for install in (item.install, *map(ctx.prefix.install_at, facts[str(item.entry)].needs)):
                if install.relative not in fresh:
                    try:
                        require_unchanged(install, item.entry, ctx.reporter)
                    except EnvmgrError as error:
                        # `build --keep-going` leaves out the entries that an error names here.
                        error.failed = failed_ones({str(item.entry): error})
                        raise
    outcomes: list[SmokeOutcome] = []
    add = {str(w.entry): w.module(facts[str(w.entry)]) for w in wanted}
    change = Change(add, tuple(remove), reason, frozenset(fresh), anew=anew, candidate=candidate)
    published = publish_change(ctx, change, ctx.find_lmod(), outcomes, slurm)
    return published, tuple(outcomes)


def publish_change(
    ctx: Context,
    change: Change,
    lmod: Lmod,
    outcomes: list[SmokeOutcome],
    slurm: JobOptions | None = None,
    tested: Collection[str] = (),
) -> PublishedChange:
    """Stage `change`, run the smoke tests of every changed module, and flip. `outcomes` collects how the tests ended;
    `tested` is as for `publish`.

    A test's own Slurm job asks for what the site's `slurm_options` say, and before them `slurm`.
    """
    options = (*ctx.site.transport.slurm_options, *(slurm.words() if slurm else ()))

    def check(modules: Path, lmodrc: Path, changed: Mapping[str, ModuleSpec]) -> None:
        outcomes[:] = [each for each in outcomes if each.entry not in changed]  # tested again: the last time counts
        for spec in changed.values():
            tests = run_smoke_tests(spec, modules, lmodrc, lmod, ctx.runner, ctx.reporter, slurm_options=options)
            outcomes.extend(tests)
        raise_for_failures(outcomes)

    templates, signer = shipped("modulefiles"), ctx.signer
    extras = generation_extras(ctx)
    done = publish(
        change,
        ctx.site,
        lmod,
        ctx.runner,
        ctx.reporter,
        templates=templates,
        check=check,
        signer=signer,
        extras=extras,
        tested=tested,
    )
    keep_status(ctx)
    return done


def _built(ctx: Context) -> list[ResolvedEntry]:
    """Return every catalog entry whose current lock is installed; the others are no error here."""
    target = read_target(ctx.site.cpu_level)
    found = []
    for entry in ctx.catalog.entries():
        try:
            item = resolve_entry(ctx, entry, target)
            item.require_sound()
        except EnvmgrError as error:
            if error.reference == "lock-contradicts":
                ctx.reporter.say(f"left out: {error.message}: `envmgr catalog check {entry.entry}` tells")
            ctx.reporter.log(f"{entry.entry}: {error.message}")
            continue
        if item.install.exists():
            found.append(item)
    return found
