"""The plan of a build or a publish, and what came of it, as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envmgr.builds import BuildJob
from envmgr.publish.plan import PlanStep
from envmgr.report import Lines, Table
from envmgr.wording import counted, size_text

_MODULE_WORDS = {"new": "new", "changed": "changed", "module": "text changed", "unchanged": "unchanged"}


def plan_lines(steps: Sequence[PlanStep], *, rerender: bool, removed: Sequence[str] = ()) -> Lines:
    """Yield what would be built, and what would be published."""
    for step in steps:
        c = step.planned
        if step.build == "build" and c.path not in c.missing:
            stands = "an install that it stands on is" if len(c.missing) == 1 else "installs that it stands on are"
            yield f"{c.entry}: reuse {c.path} ({stands} missing); module {_MODULE_WORDS[step.publish]}"
            yield Table(["  build", path] for path in c.missing)
            continue
        if step.build == "build":
            download = "download size unknown" if c.download is None else f"{size_text(c.download)} to download"
            known = f"{counted(len(c.packages), 'packages')}, {download}"
        else:
            known = "installed"
        yield f"{c.entry}: {step.build} {c.path} ({known}); module {_MODULE_WORDS[step.publish]}"
        if step.build == "build":
            yield Table([f"  {name}", *spec.split(" ", 1)] for name, spec in c.packages.items())
    if rerender:
        yield "templates or policies changed: every module is rendered again"
    for name in removed:
        yield f"{name}: would go"
    if not rerender and not removed and all(s.build == "reuse" and s.publish == "unchanged" for s in steps):
        yield "nothing to do"


def untested_lines(entries: Iterable[str]) -> Lines:
    """Yield the entries whose recipe has no test."""
    for entry in entries:
        yield (
            f"{entry}: its recipe has no test, so only the default ones run: the module loads, a program of it starts, "
            "packages that were built from source are imported"
        )


def job_lines(jobs: Iterable[BuildJob]) -> Lines:
    """Yield the Slurm jobs of a build."""
    rows = []
    for job in jobs:
        state = "would be submitted" if not job.job else f"{job.job}, under way before" if job.attached else job.job
        after = ", ".join(label.removeprefix("store/") for label in job.after)
        rows.append(["  job", job.item.removeprefix("store/"), state, f"after {after}" if after else ""])
    yield Table(rows)


def nothing_lines(steps: Sequence[PlanStep], current: int | None, *, built_only: bool) -> Lines:
    """Yield why there was nothing to do."""
    names = ", ".join(str(s.planned.entry) for s in steps)
    verb = "is" if len(steps) == 1 else "are"
    if built_only:
        yield f"nothing to build: {names} {verb} in the store (`envmgr publish` makes it current)"
    elif names:
        yield f"nothing to do: {names} {verb} published in generation {current}"
    else:
        yield "nothing to do: nothing is built that is not published"


def published_lines(
    generation: int | None, parent: int | None, steps: Sequence[PlanStep], *, candidate: bool = False
) -> Lines:
    """Yield the generation that was made."""
    if generation is not None:
        names = ", ".join(str(s.planned.entry) for s in steps if s.publish != "unchanged")
        if candidate:
            yield f"generation {generation} is a candidate{f' with {names}' if names else ''}; {parent or 'none'} is current"
            yield f"next: `envmgr test --generation {generation} --nodes SET`, then `envmgr promote {generation}`"
            return
        was = f" (was {parent})" if parent is not None else ""
        yield f"published{f' {names}' if names else ''}: generation {generation} is current{was}"
