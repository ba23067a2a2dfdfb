"""Locking, fetching, building and publishing as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from envmgr.cli.render import out, table
from envmgr.cli.text.nodes import show_outcomes
from envmgr.wording import counted, size_text

if TYPE_CHECKING:
    from envmgr.builds import BuildJob
    from envmgr.builds.slurm.job import BuildJobResult
    from envmgr.catalog.locks import LockChange
    from envmgr.commands import again, build, fetch, lock, promote, publish
    from envmgr.publish.plan import PlanStep

_MODULE_WORDS = {"new": "new", "changed": "changed", "module": "text changed", "unchanged": "unchanged"}


def show_build(result: build.BuildResult) -> None:
    if result.dry_run:
        _plan(result.steps, rerender=result.rerender)
        _jobs(result.jobs)
        _untested(result.untested)
        return
    if result.log is None:
        _nothing(result.steps, result.parent, built_only=any(s.publish != "unchanged" for s in result.steps))
        return
    for step in result.steps:
        entry = str(step.planned.entry)
        done = "built" if entry in result.built else "reused"
        out(f"{entry}: {done}  {step.planned.path}  tree {result.trees[entry][:12]}")
    _jobs(result.jobs)
    show_outcomes(result.tests)
    _untested(result.untested)
    _published(result.generation, result.parent, result.steps, candidate=result.candidate)
    for image in result.images:
        out(f"{image.image}: {image.status}, {size_text(image.size)} of {size_text(image.of)}")
    out(f"log: {result.log}")


_AGAIN = {
    None: "would be made again",
    "same": "sound, and the same bytes when it is made again",
    "replaced": "was damaged, and was made again in its place",
    "renewed": "was damaged, and was made again in its place, with a new manifest",
    "differs": "sound, but it has other bytes when it is made again: it stays as it is",
}


def show_build_again(result: again.AgainResult) -> None:
    for each in result.installs:
        out(f"{each.path}: {_AGAIN[each.outcome]}")
        for line in (*each.damage, *(f"made again: {line}" for line in each.other)):
            out(f"  {line}")
    if result.generation is not None:
        out(f"generation {result.generation} is current")
    if result.log is not None:
        out(f"log: {result.log}")


def show_build_job(result: BuildJobResult) -> None:
    out(f"{result.item}: {'built' if result.built else 'was there'}, tree {result.tree[:12]}")


def show_fetch(result: fetch.FetchResult) -> None:
    for entry in result.entries:
        if result.dry_run:
            to_do = counted(len(entry.missing), "files") + " to fetch"
        else:
            to_do = f"{entry.fetched} fetched ({size_text(entry.bytes)})"
        out(f"{entry.entry}: {counted(entry.files, 'files')}, {entry.present} there, {to_do}")
        table([f"  {f.name}", size_text(f.size) if f.size else "size unknown", f.sha256] for f in entry.missing)
    if result.log is not None:
        out(f"log: {result.log}")


def show_publish(result: publish.PublishResult) -> None:
    if result.dry_run:
        _plan(result.steps, rerender=result.rerender, removed=result.removed)
    elif result.log is None:
        _nothing(result.steps, result.parent, built_only=False)
    else:
        show_outcomes(result.tests)
        _published(result.generation, result.parent, result.steps, candidate=result.candidate)
        for name in result.removed:
            out(f"  - {name}")
        out(f"log: {result.log}")


def show_promote(result: promote.PromoteResult) -> None:
    show_outcomes(result.tests)
    was = result.before or "none"
    if result.withdrawn:
        out(f"candidate {result.candidate} {'would be' if result.dry_run else 'is'} withdrawn, with those before it")
    elif result.rebased is not None:
        out(f"generation {result.rebased} is a candidate: the changes of {result.candidate} on {was}")
    elif result.rebase:
        out(f"would make a candidate: the changes of {result.candidate} on {was}")
    elif result.dry_run:
        out(f"generation {result.candidate} would be current (is {was})")
    else:
        out(f"generation {result.candidate} is current (was {was}); new shells get it")
    for name in result.taken_back:
        out(f"warning: {name} was changed since by another publish; the candidate takes that back")
    for change in (*result.changes, *result.staged):
        out(f"  {change}")
    if result.unseen:
        number = result.rebased or result.candidate
        out(f"not tested on nodes: {', '.join(result.unseen)} (`envmgr test --generation {number} --nodes SET`)")


def show_lock(result: lock.LockCommandResult) -> None:
    for outcome in result.outcomes:
        count = f"  {counted(outcome.packages, 'packages')}" if outcome.packages else ""
        out(f"{outcome.entry}: {outcome.status}{count}{f'  ({outcome.reason})' if outcome.reason else ''}")
        show_changes(outcome.changes)
        for mend in outcome.mends:
            out(f"  hint: {mend}")
        for note in outcome.notes:
            out(f"  note: {note}")


def show_changes(changes: Iterable[LockChange]) -> None:
    for change in changes:
        if not change.old:
            out(f"  + {change.name} {change.new}")
        elif not change.new:
            out(f"  - {change.name} {change.old}")
        else:
            out(f"  ~ {change.name} {change.old} -> {change.new}")


def _plan(steps: Sequence[PlanStep], *, rerender: bool, removed: Sequence[str] = ()) -> None:
    for step in steps:
        c = step.planned
        if step.build == "build" and c.path not in c.missing:
            stands = "an install that it stands on is" if len(c.missing) == 1 else "installs that it stands on are"
            out(f"{c.entry}: reuse {c.path} ({stands} missing); module {_MODULE_WORDS[step.publish]}")
            table(["  build", path] for path in c.missing)
            continue
        if step.build == "build":
            download = "download size unknown" if c.download is None else f"{size_text(c.download)} to download"
            known = f"{counted(len(c.packages), 'packages')}, {download}"
        else:
            known = "installed"
        out(f"{c.entry}: {step.build} {c.path} ({known}); module {_MODULE_WORDS[step.publish]}")
        if step.build == "build":
            table([f"  {name}", *spec.split(" ", 1)] for name, spec in c.packages.items())
    if rerender:
        out("templates or policies changed: every module is rendered again")
    for name in removed:
        out(f"{name}: would go")
    if not rerender and not removed and all(s.build == "reuse" and s.publish == "unchanged" for s in steps):
        out("nothing to do")


def _untested(entries: Iterable[str]) -> None:
    for entry in entries:
        out(
            f"{entry}: its recipe has no test, so only the default ones run: the module loads, a program of it starts, "
            "packages that were built from source are imported"
        )


def _jobs(jobs: Iterable[BuildJob]) -> None:
    rows = []
    for job in jobs:
        state = "would be submitted" if not job.job else f"{job.job}, under way before" if job.attached else job.job
        after = ", ".join(label.removeprefix("store/") for label in job.after)
        rows.append(["  job", job.item.removeprefix("store/"), state, f"after {after}" if after else ""])
    table(rows)


def _nothing(steps: Sequence[PlanStep], current: int | None, *, built_only: bool) -> None:
    names = ", ".join(str(s.planned.entry) for s in steps)
    verb = "is" if len(steps) == 1 else "are"
    if built_only:
        out(f"nothing to build: {names} {verb} in the store (`envmgr publish` makes it current)")
    elif names:
        out(f"nothing to do: {names} {verb} published in generation {current}")
    else:
        out("nothing to do: nothing is built that is not published")


def _published(
    generation: int | None, parent: int | None, steps: Sequence[PlanStep], *, candidate: bool = False
) -> None:
    if generation is not None:
        names = ", ".join(str(s.planned.entry) for s in steps if s.publish != "unchanged")
        if candidate:
            out(
                f"generation {generation} is a candidate{f' with {names}' if names else ''}; {parent or 'none'} is current"
            )
            out(f"next: `envmgr test --generation {generation} --nodes SET`, then `envmgr promote {generation}`")
            return
        was = f" (was {parent})" if parent is not None else ""
        out(f"published{f' {names}' if names else ''}: generation {generation} is current{was}")
