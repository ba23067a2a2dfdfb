"""`envmgr build`: find what there is to do, by recipes, locks, store and `current`. steps/build_run.py does it.

A run with nothing to do imports nothing that makes an install, tests it or asks a node.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from envmgr.builds import BuildJob
from envmgr.errors import InputError, Written
from envmgr.images import ImageRow
from envmgr.publish.plan import BuildPlan, PlanStep
from envmgr.report import Lines, Result
from envmgr.smoke import SmokeOutcome, outcome_lines
from envmgr.steps import Context
from envmgr.steps.lock_checks import Losses
from envmgr.steps.plan import plan_for
from envmgr.steps.plan_text import job_lines, nothing_lines, plan_lines, published_lines, untested_lines
from envmgr.steps.resolved import EntryBuild, resolve_all, resolve_named
from envmgr.verbs import (
    AccountOption,
    All,
    AllowNetwork,
    Candidate,
    DryRun,
    PartitionOption,
    SomeEntries,
    TimeOption,
    needs,
    option,
)
from envmgr.wording import size_text

if TYPE_CHECKING:  # a build that is no Slurm job and has no gate does not need it
    from envmgr.nodes.jobs import JobOptions
    from envmgr.steps.gate import Mode


@dataclass(frozen=True, slots=True)
class BuildResult(Result):
    """The result of a build. `generation` is None if nothing was published; it is current, or a `candidate`; `built` are the entries that this run
    built.

    `gate` is what the last audit says against the entries, if that did not stop the build. `jobs` are the Slurm jobs
    that made installs, or that a dry run would submit. `left_out` are entries whose licence the site has not
    acknowledged, or that ship without a lock. `untested` are entries without a test in their recipe, of those that are built or published.
    """

    schema: ClassVar[str] = "envmgr.build/2"
    steps: tuple[PlanStep, ...]
    rerender: bool
    dry_run: bool
    built: tuple[str, ...] = ()
    trees: dict[str, str] = field(default_factory=dict)
    tests: tuple[SmokeOutcome, ...] = ()
    generation: int | None = None
    parent: int | None = None
    log: str | None = None
    gate: tuple[str, ...] = ()
    jobs: tuple[BuildJob, ...] = ()
    left_out: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()
    images: tuple[ImageRow, ...] = ()
    candidate: bool = False

    def lines(self) -> Lines:
        if self.dry_run:
            yield from plan_lines(self.steps, rerender=self.rerender)
            yield from job_lines(self.jobs)
            yield from untested_lines(self.untested)
            return
        if self.log is None:
            yield from nothing_lines(
                self.steps, self.parent, built_only=any(s.publish != "unchanged" for s in self.steps)
            )
            return
        for step in self.steps:
            entry = str(step.planned.entry)
            done = "built" if entry in self.built else "reused"
            yield f"{entry}: {done}  {step.planned.path}  tree {self.trees[entry][:12]}"
        yield from job_lines(self.jobs)
        yield from outcome_lines(self.tests)
        yield from untested_lines(self.untested)
        yield from published_lines(self.generation, self.parent, self.steps, candidate=self.candidate)
        for image in self.images:
            yield f"{image.image}: {image.status}, {size_text(image.size)} of {size_text(image.of)}"
        yield f"log: {self.log}"


@needs("write")
def build(
    ctx: Context,
    entries: SomeEntries = None,
    everything: All = False,
    dry_run: DryRun = False,
    no_publish: Annotated[bool, option("Build into the store, and publish nothing.")] = False,
    candidate: Candidate = False,
    again: Annotated[
        bool, option("Make what is built once more, compare, and exchange it where it is damaged.")
    ] = False,
    keep_going: Annotated[
        bool, option("Publish the entries that succeed even if others fail.", None, "--keep-going", "-k")
    ] = False,
    jobs: Annotated[
        int | None,
        option("Make this many installs at once, each with this many processes.", "N", "-j", "--jobs", min=1),
    ] = None,
    gate: Annotated[
        bool | None,
        option(
            "Check with the last audit that all nodes can run the entries; by default policies.gate decides.",
            None,
            "--gate/--no-gate",
        ),
    ] = None,
    via: Annotated[
        Literal["local", "slurm"], option("Build on this machine, or in one Slurm job for each install.")
    ] = "local",
    partition: PartitionOption = None,
    account: AccountOption = None,
    cpus: Annotated[int | None, option("Number of cores for each Slurm job.", "N", min=1)] = None,
    allow_network: AllowNetwork = False,
    time: TimeOption = None,
) -> Result:
    """Build what locks name, and publish modules.

    With --via slurm, Ctrl-C leaves the jobs running; run the same command again to follow them.
    """
    ctx = ctx.allowing(network=allow_network)
    cores = jobs or len(os.sched_getaffinity(0))
    if again:
        from envmgr.steps.again import build_entries_again

        if everything or no_publish or candidate or keep_going or gate is not None or via == "slurm":
            raise InputError("build-what", "--again takes entries, and no other option than --dry-run and --jobs")
        return build_entries_again(ctx, entries or (), jobs=cores, dry_run=dry_run)
    slurm = _slurm_options(via, jobs, partition, account, cpus, time)
    names, publish = entries or (), not no_publish
    if candidate and not publish:
        raise InputError("build-what", "--no-publish makes no generation, and --candidate makes one: give one of them")
    losses = Losses(allowed=keep_going)
    wanted, left_out = resolve_all(ctx, losses) if everything else (resolve_named(ctx, names, losses), ())
    if not wanted:
        losses.raise_first(Written())
        raise InputError("nothing-named", "name at least one entry, or --all", hint="`envmgr list` shows what there is")
    for item in wanted:
        item.install.check_length()
    plan = plan_for(ctx, wanted)
    said = _pass_gate(ctx, wanted, plan, gate)
    changed = {s.planned.entry for s in (*plan.to_build, *plan.to_publish)}
    untested = tuple(str(item.entry) for item in wanted if item.entry in changed and not item.recipe.tests)
    result = BuildResult(
        plan.steps,
        plan.rerender,
        dry_run,
        parent=plan.current,
        gate=said,
        left_out=left_out,
        untested=untested if publish else (),
        candidate=candidate,
    )
    idle = plan.nothing_to_do or (not publish and not plan.to_build)
    if dry_run or idle:
        losses.raise_first(Written())
    if idle and not dry_run:
        for item in wanted:
            if item.lock.outside:
                look = f"{item.entry} is not ours, and nobody looked at its tree now: `envmgr verify {item.entry}` does"
                ctx.reporter.say(look)
        return result
    from envmgr.steps.build_run import planned_jobs, run_build

    if dry_run:
        return replace(result, jobs=() if slurm is None else planned_jobs(ctx, wanted, slurm))
    reason = "build --all" if everything else f"build {' '.join(names)}"
    run = run_build(
        ctx, wanted, plan, losses, reason=reason, publish=publish, jobs=cores, slurm=slurm, candidate=candidate
    )
    return replace(result, **{each.name: getattr(run, each.name) for each in fields(run)})


def _slurm_options(
    via: str, jobs: int | None, partition: str | None, account: str | None, cpus: int | None, time: str | None
) -> JobOptions | None:
    """Return the options of Slurm jobs, None for a build on this host. Raise InputError `bad-job-option`."""
    of_slurm = {"--partition": partition, "--account": account, "--cpus": cpus, "--time": time}
    given = [name for name, value in of_slurm.items() if value is not None]
    if via == "local" and given:
        raise InputError("bad-job-option", f"{given[0]} is for Slurm jobs", hint="add `--via slurm`")
    if via == "slurm" and jobs is not None:
        raise InputError("bad-job-option", "--jobs is for builds on this host", hint="--cpus is what each job gets")
    if via == "local":
        return None
    from envmgr.nodes.jobs import JobOptions

    options = JobOptions(partition, account, cpus, time)
    options.check()
    return options


def _pass_gate(ctx: Context, wanted: Sequence[EntryBuild], plan: BuildPlan, asked: bool | None) -> tuple[str, ...]:
    """Return what `pass_gate` says of the entries that the build would change."""
    fresh = {s.planned.entry for s in (*plan.to_build, *plan.to_publish)}
    mode = choose_mode(asked, ctx.site.policies.gate)
    if not fresh or mode == "off":
        return ()
    from envmgr.steps.gate import pass_gate

    return pass_gate(ctx, {str(w.entry): w.needs(w.measured()) for w in wanted if w.entry in fresh}, mode)


def choose_mode(asked: bool | None, policy: Mode) -> Mode:
    """Return the mode of this build; `--gate` without a policy refuses."""
    if asked is None:
        return policy
    return "off" if not asked else "refuse" if policy == "off" else policy
