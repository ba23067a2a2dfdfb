"""Publish a change: verify, stage, test, flip. It is also the last step of `envmgr build`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envmgr.errors import EnvmgrError, failed_ones
from envmgr.modules.lmod import Lmod
from envmgr.modules.spec import ModuleSpec
from envmgr.publish.flips import told_records
from envmgr.publish.generations import PublishedChange, publish
from envmgr.publish.plan import BuildPlan, Change
from envmgr.publish.verify import LookedAt, verify_generation
from envmgr.smoke import SmokeOutcome
from envmgr.smoke.here import raise_for_failures, run_smoke_tests
from envmgr.steps import Context, trusted_owners
from envmgr.steps.extras import generation_extras
from envmgr.steps.resolved import EntryBuild
from envmgr.steps.status import keep_status
from envmgr.store.manifest import InstallFacts
from envmgr.store.verify import require_unchanged
from envmgr.system.files import shipped

if TYPE_CHECKING:  # a build that is no Slurm job needs none of it
    from envmgr.nodes.jobs import JobOptions


def look_at_generation(ctx: Context, number: int) -> LookedAt:
    """Return what is wrong with the files of a generation."""
    return verify_generation(ctx.prefix, number, told_records(ctx.prefix), trusted_owners(ctx))


def publish_wanted(
    ctx: Context,
    wanted: Sequence[EntryBuild],
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
