"""`envmgr build`: from recipe and lock to a published module that loads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import ClassVar

from envmgr.commands import Context, logged
from envmgr.commands.gate import choose_mode, pass_gate
from envmgr.commands.publish import publish_wanted
from envmgr.commands.wanted import Wanted, load_wanted, plan_for
from envmgr.errors import EnvmgrError, InputError
from envmgr.lmod import find_lmod
from envmgr.plan import Plan, Step
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
        ensured = _ensure_all(inner, wanted, plan, jobs)
        built = tuple(name for name, e in ensured.items() if e.built)
        trees = {name: e.tree for name, e in ensured.items()}
        if not publish:
            return BuildResult(plan.steps, plan.rerender, False, built, trees, (), None, plan.current, str(log), said)
        facts = {name: e.facts for name, e in ensured.items()}
        published, tests = publish_wanted(inner, wanted, plan, facts, fresh=built, reason=f"build {' '.join(names)}")
    return BuildResult(
        plan.steps, plan.rerender, False, built, trees, tests, published.number, published.parent, str(log), said
    )


def _ensure_all(ctx: Context, wanted: Sequence[Wanted], plan: Plan, jobs: int) -> dict[str, Ensured]:
    """Every wanted install, built where it is missing. All are tried; then the first error is raised."""
    missing = {s.candidate.entry for s in plan.to_build}
    at_once = max(1, min(jobs, len(missing)))
    each = max(1, jobs // at_once)
    done: dict[str, Ensured] = {}
    failed: dict[str, EnvmgrError] = {}
    with ThreadPoolExecutor(at_once) as pool:
        futures: dict[Future[Ensured], str] = {
            pool.submit(
                ensure_install, w.backend, w.recipe, w.lock, w.install, ctx.site, ctx.runner, ctx.reporter, jobs=each
            ): str(w.entry)
            for w in wanted
        }
        waiting = set(futures)
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in finished:
                    try:
                        done[futures[future]] = future.result()
                    except EnvmgrError as error:
                        failed[futures[future]] = error
        except BaseException:
            ctx.runner.cancel.set()  # Ctrl-C: every worker ends, every thread cleans up after itself
            for future in waiting:
                future.cancel()
            raise
    if failed:
        raise _first_error(failed, done)
    return {str(w.entry): done[str(w.entry)] for w in wanted}


def _first_error(failed: dict[str, EnvmgrError], done: dict[str, Ensured]) -> EnvmgrError:
    entry, error = next(iter(failed.items()))
    extra = [f"{entry} was not built"] if not error.message.startswith(entry) else []
    extra += [f"{other} failed too: {e.message}" for other, e in failed.items() if other != entry]
    if built := [name for name, e in done.items() if e.built]:
        extra.append(f"built and kept for the next run: {', '.join(built)}")
    error.context = (*error.context, *extra)
    return error
