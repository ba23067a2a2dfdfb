"""`envmgr build`: from recipe and lock to a published module that loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envmgr.builds import Work, make_all, raise_first
from envmgr.commands import Context, logged
from envmgr.commands.gate import choose_mode, pass_gate
from envmgr.commands.publish import publish_wanted
from envmgr.commands.wanted import Wanted, load_wanted, plan_for
from envmgr.errors import InputError
from envmgr.lmod import find_lmod
from envmgr.plan import Step
from envmgr.realise import Ensured, can_write, clean_leftovers, ensure_install, require_space
from envmgr.smoke import SmokeOutcome


@dataclass(frozen=True, slots=True)
class BuildResult:
    """`generation` is None when nothing was published; `built` are the entries whose install was made in this run.

    `gate` is what the last audit's facts say against the entries, where it did not stop the build.
    """

    schema: ClassVar[str] = "envmgr.build/1"
    steps: tuple[Step, ...]
    rerender: bool
    dry_run: bool
    built: tuple[str, ...]
    trees: dict[str, str]
    tests: tuple[SmokeOutcome, ...]
    generation: int | None
    parent: int | None
    log: str | None
    gate: tuple[str, ...] = ()


def build(
    ctx: Context,
    names: Sequence[str],
    *,
    everything: bool = False,
    dry_run: bool = False,
    publish: bool = True,
    jobs: int = 1,
    gate: bool | None = None,
) -> BuildResult:
    """Build and publish the named entries and what they depend on.

    `jobs` is how many installs are made side by side. One failure keeps `current` as it is; other installs are finished
    and kept, and reused by the next run. `gate` asks the last audit if the nodes can run them; None is as the site says.

    Raises:
        InputError: unknown entries; EnvmgrError: whatever goes wrong, with the log's path.
    """
    if everything:
        names = [str(e.entry) for e in ctx.catalog.entries()]
    if not names:
        raise InputError("nothing-named", "name at least one entry, or --all", hint="`envmgr list` shows what there is")
    wanted = load_wanted(ctx, names)
    for item in wanted:
        item.install.check_length()
    plan, _ = plan_for(ctx, wanted)
    fresh = {s.candidate.entry for s in (*plan.to_build, *plan.to_publish)}
    requirements = {str(w.entry): w.recipe.requires for w in wanted if w.entry in fresh}
    said = pass_gate(ctx, requirements, choose_mode(gate, ctx.site.policies.gate))
    if dry_run or plan.nothing_to_do or (not publish and not plan.to_build):
        return BuildResult(plan.steps, plan.rerender, dry_run, (), {}, (), None, plan.current, None, said)
    if publish:
        find_lmod(ctx.site.lmod.dir, ctx.environ, runner=ctx.runner)  # missing: say so before the download, not after
    can_write(ctx.site)
    with logged(ctx, "build") as (inner, log):
        clean_leftovers(ctx.prefix, inner.reporter)
        missing = {s.candidate.entry for s in plan.to_build}
        require_space([w.lock for w in wanted if w.entry in missing], ctx.site)
        for item in wanted:
            if item.missing:
                item.backend.prepare(item.lock, item.missing, ctx.site, ctx.runner, inner.reporter)
        ensured, made = _ensure_all(inner, wanted, jobs)
        built = tuple(name for name, e in ensured.items() if e.built)
        trees = {name: e.tree for name, e in ensured.items()}
        if not publish:
            return BuildResult(plan.steps, plan.rerender, False, built, trees, (), None, plan.current, str(log), said)
        facts = {name: e.facts for name, e in ensured.items()}
        published, tests = publish_wanted(inner, wanted, plan, facts, fresh=made, reason=f"build {' '.join(names)}")
    return BuildResult(
        plan.steps, plan.rerender, False, built, trees, tests, published.number, published.parent, str(log), said
    )


def _ensure_all(ctx: Context, wanted: Sequence[Wanted], jobs: int) -> tuple[dict[str, Ensured], list[str]]:
    """Every wanted install, built where it is missing, with what it stands on. All are tried; then the first error is raised.

    Returns them by entry, and the paths of all installs that were made.
    """
    own = {item.install.relative: Work(item.backend, item.recipe, item.lock, item.items[-1]) for item in wanted}
    missing = {w.label: w for i in wanted for w in (Work(i.backend, i.recipe, i.lock, each) for each in i.missing)}

    def make(each: Work, cores: int) -> Ensured:
        return ensure_install(
            each.backend, each.recipe, each.lock, each.item, ctx.site, ctx.runner, ctx.reporter, jobs=cores
        )

    outcome = make_all(list(missing.values()), ctx.runner, jobs=jobs, make=make)
    raise_first(outcome, {item.install.relative: str(item.entry) for item in wanted})
    ensured = {
        str(item.entry): outcome.done.get(item.install.relative) or make(own[item.install.relative], jobs)
        for item in wanted
    }
    return ensured, [path for path, e in outcome.done.items() if e.built]
