"""`envmgr publish`: publish built entries to users, or take entries out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from envmgr.builds.prepare import can_write
from envmgr.catalog.site import read_target
from envmgr.errors import EnvmgrError
from envmgr.publish.flips import flips
from envmgr.publish.plan import PlanStep, check_dependencies
from envmgr.publish.records import BUILD, read_specs
from envmgr.report import Lines, Result
from envmgr.smoke import SmokeOutcome, outcome_lines
from envmgr.steps import Context, logged, published_record, require_published
from envmgr.steps.plan import plan_for
from envmgr.steps.plan_text import nothing_lines, plan_lines, published_lines
from envmgr.steps.publish import look_at_generation, publish_wanted
from envmgr.steps.resolved import EntryBuild, resolve_entry, resolve_named
from envmgr.store.manifest import read_facts
from envmgr.verbs import Candidate, DryRun, SomeEntries, needs, option


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
            if self.removed and not self.candidate and self.parent is not None:
                yield "a recipe stays: `envmgr build` or a bare `envmgr publish` publishes it again"
                yield f"installs and older generations stay; `envmgr rollback {self.parent}` brings all back"
            yield f"log: {self.log}"


@needs("write")
def publish(
    ctx: Context,
    entries: SomeEntries = None,
    candidate: Candidate = False,
    remove: Annotated[
        list[str] | None,
        option(
            "Take this published entry out (may be repeated); without other entries, publish nothing else.", "ENTRY"
        ),
    ] = None,
    reason: Annotated[str, option("Words for the history.", "TEXT")] = "",
    dry_run: DryRun = False,
) -> PublishResult:
    """Publish what is built, or take entries out.

    Without entries it publishes all that is built. A removed entry keeps its recipe and its install; older generations
    still have it.
    """
    names, gone = entries or (), remove or ()
    if gone:
        _require_unneeded(ctx, gone, names)
    # What is to go is often still in the catalog.
    found = resolve_named(ctx, names) if names else () if gone else _built(ctx)
    wanted = [each for each in found if str(each.entry) not in gone]
    plan = plan_for(ctx, wanted)
    anew = not (names or gone) and _is_damaged(ctx, plan.current)
    plan = replace(plan, rerender=plan.rerender or anew)
    missing = [str(s.planned.entry) for s in plan.to_build]
    if missing:
        hint = f"run `envmgr build {' '.join(missing)}`"
        raise EnvmgrError("not-built", f"{', '.join(missing)} is not built", hint=hint)
    if not (names or gone or wanted) and plan.current is None and flips(ctx.prefix):
        message = "no generation is left, and nothing is built that the catalog has"
        hint = f"bring back what was lost from a backup; or {BUILD}"
        raise EnvmgrError("nothing-published", message, context=str(ctx.prefix.root), hint=hint)
    if dry_run or not (plan.publishes or gone):
        return PublishResult(plan.steps, plan.rerender, dry_run, None, plan.current, (), None, candidate, tuple(gone))
    can_write(ctx.site)
    with logged(ctx, "publish") as (inner, log):
        facts = {str(w.entry): read_facts(w.install) for w in wanted}
        for item in wanted:
            item.require_none_hidden(facts[str(item.entry)])
        why = reason or " ".join(("publish", *names, *(("--remove", *gone) if gone else ())))
        published, tests = publish_wanted(
            inner, wanted, plan, facts, fresh=(), reason=why, remove=gone, candidate=candidate, anew=anew
        )
    return PublishResult(
        plan.steps, plan.rerender, False, published.number, published.parent, tests, str(log), candidate, tuple(gone)
    )


def _require_unneeded(ctx: Context, gone: Sequence[str], names: Sequence[str]) -> None:
    """Raise InputError `not-published` for an entry to remove, and EnvmgrError if an entry that stays needs it."""
    current = published_record(ctx)
    require_published(gone, current)
    specs = read_specs(ctx.prefix, current.number)
    check_dependencies({k: tuple(v["spec"]["depends"]) for k, v in specs.items() if k not in (*gone, *names)})


def _is_damaged(ctx: Context, number: int | None) -> bool:
    """Return whether files of the current generation are not as they were published, but those that a new one is made
    from are.
    """
    looked = None if number is None else look_at_generation(ctx, number)
    if looked is None or not looked.faults or not looked.can_be_made_again:
        return False
    ctx.reporter.say(f"generation {number} is damaged: the same entries are published again")
    return True


def _built(ctx: Context) -> list[EntryBuild]:
    """Return every catalog entry whose current lock is installed; the others are no error here."""
    target = read_target(ctx.site.cpu_level)
    found = []
    for entry in ctx.catalog.entries():
        try:
            item = resolve_entry(ctx, entry, target)
            item.require_sound()
        except EnvmgrError as error:
            if error.reference == "lock-contradicts":
                ctx.reporter.say(f"left out: {error.message}: `envmgr check {entry.entry}` tells")
            ctx.reporter.log(f"{entry.entry}: {error.message}")
            continue
        if item.install.exists():
            found.append(item)
    return found
