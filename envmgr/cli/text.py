"""One function per result type: how a person sees it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from envmgr.cli.progress import counted
from envmgr.cli.render import table
from envmgr.report import size_text

if TYPE_CHECKING:  # the verb that ran has imported its own
    from envmgr.builds.schedule import BuildJob
    from envmgr.catalog.locks import LockChange
    from envmgr.commands.audit import AuditResult, ExplainResult
    from envmgr.commands.build import BuildResult
    from envmgr.commands.build_item import BuildItemResult
    from envmgr.commands.catalog import CheckResult, CopyResult
    from envmgr.commands.check import NodeTestResult, TestResult, VerifyResult
    from envmgr.commands.fetch import FetchResult
    from envmgr.commands.generations import DiffResult, GcResult, HistoryResult, RemoveResult, RollbackResult
    from envmgr.commands.list import ListResult, ShowResult
    from envmgr.commands.lock import LockCommandResult
    from envmgr.commands.node_setup import NodeSetupResult
    from envmgr.commands.publish import PublishResult
    from envmgr.commands.shell_init import ShellInitResult
    from envmgr.commands.site import InitResult, SiteCheckResult
    from envmgr.publish.plan import PlanStep
    from envmgr.smoke.here import SmokeOutcome

_MODULE_WORDS = {"new": "new", "changed": "changed", "module": "text changed", "unchanged": "unchanged"}
_MARKS = {"passed": "ok", "failed": "FAILED", "skipped": "skipped"}


def show(result: Any) -> None:
    """Print a result by the function that has its type's name."""
    globals()[f"show_{type(result).__name__}"](result)


def show_AuditResult(result: AuditResult) -> None:  # noqa: N802
    from envmgr.cli.text_audit import show_audit

    show_audit(result)


def show_ExplainResult(result: ExplainResult) -> None:  # noqa: N802
    out(result.text)


def out(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def show_BuildResult(result: BuildResult) -> None:  # noqa: N802 - found by the type's name
    if result.dry_run:
        _plan(result.steps, rerender=result.rerender)
        _jobs(result.jobs)
        return
    if result.log is None:
        _nothing(result.steps, result.parent, built_only=any(s.publish != "unchanged" for s in result.steps))
        return
    for step in result.steps:
        entry = str(step.candidate.entry)
        out(
            f"{entry}: {'built' if entry in result.built else 'reused'}  {step.candidate.path}  tree {result.trees[entry][:12]}"
        )
    _jobs(result.jobs)
    _tests(result.tests)
    _published(result.generation, result.parent, result.steps)
    out(f"log: {result.log}")


def show_BuildItemResult(result: BuildItemResult) -> None:  # noqa: N802
    out(f"{result.item}: {'built' if result.built else 'was there'}, tree {result.tree[:12]}")


def show_FetchResult(result: FetchResult) -> None:  # noqa: N802
    for entry in result.entries:
        if result.dry_run:
            to_do = counted(len(entry.missing), "files") + " to fetch"
        else:
            to_do = f"{entry.fetched} fetched ({size_text(entry.bytes)})"
        out(f"{entry.entry}: {counted(entry.files, 'files')}, {entry.present} there, {to_do}")
        table([f"  {f.name}", size_text(f.size) if f.size else "size unknown", f.sha256] for f in entry.missing)
    if result.log is not None:
        out(f"log: {result.log}")


def show_PublishResult(result: PublishResult) -> None:  # noqa: N802
    if result.dry_run:
        _plan(result.steps, rerender=result.rerender)
    elif result.log is None:
        _nothing(result.steps, result.parent, built_only=False)
    else:
        _tests(result.tests)
        _published(result.generation, result.parent, result.steps)
        out(f"log: {result.log}")


def show_LockCommandResult(result: LockCommandResult) -> None:  # noqa: N802
    for outcome in result.outcomes:
        count = f"  {counted(outcome.packages, 'packages')}" if outcome.packages else ""
        out(f"{outcome.entry}: {outcome.status}{count}{f'  ({outcome.reason})' if outcome.reason else ''}")
        _changes(outcome.changes, indent="  ")
        for note in outcome.notes:
            out(f"  note: {note}")


def show_ListResult(result: ListResult) -> None:  # noqa: N802
    rows = []
    for name, group in groupby(result.entries, key=lambda e: e.entry.partition("/")[0]):
        entries = list(group)
        rows.append([name, "", entries[0].description])
        for index, entry in enumerate(entries):
            branch = "└─" if index == len(entries) - 1 else "├─"
            rows.append([f"{branch} {entry.entry.partition('/')[2]}", entry.state, ", ".join(entry.notes)])
    table(rows)
    if not rows:
        out("no catalog has an entry")
    if result.generation is not None:
        out(f"\ncurrent generation: {result.generation}")


def show_ShowResult(result: ShowResult) -> None:  # noqa: N802
    recipe, software = result.recipe, result.software
    requires = {k: v for k, v in recipe["requires"].items() if v}
    rows = [
        ("entry", result.entry),
        ("state", ", ".join([result.state, *result.notes])),
        ("description", software["description"].strip()),
        ("homepage", software["homepage"]),
        ("licence", software["licence"]),
        ("recipe", result.folder),
        ("backend", recipe["backend"]),
        *((key, _words(value)) for key, value in recipe["input"].items()),
        ("depends", ", ".join(recipe["depends"])),
        ("family", recipe["family"] or ""),
        (
            "requires",
            ", ".join(f"{k} >= {v}" if isinstance(v, str) else f"{k} {', '.join(v)}" for k, v in requires.items()),
        ),
        ("tests", ", ".join(t["name"] for t in recipe["tests"])),
        ("digest", result.digest or ""),
        ("install", result.install or ""),
        ("module", result.module or ""),
        ("packages", str(len(result.packages)) if result.packages else "not locked"),
    ]
    table([r for r in rows if r[1]])
    if result.packages:
        out()
        table([f"  {name}", *spec.split(" ", 1)] for name, spec in result.packages.items())


def _words(value: Any) -> str:
    """A recipe's value in one line: lists and mappings by commas."""
    items = [f"{k} {v}" for k, v in value.items()] if isinstance(value, dict) else value
    return ", ".join(map(str, items)) if isinstance(items, list) else str(items)


def show_CopyResult(result: CopyResult) -> None:  # noqa: N802
    out(
        f"{result.entry}: {'would be copied' if result.dry_run else 'copied'} to {result.target} ({', '.join(result.files)})"
    )


def show_CheckResult(result: CheckResult) -> None:  # noqa: N802
    for finding in result.findings:
        out(f"{finding.severity}[{finding.check}]: {finding.where}: {finding.found}")
        if finding.hint:
            out(f"  hint: {finding.hint}")
    errors = sum(f.severity == "error" for f in result.findings)
    warnings = sum(f.severity == "warning" for f in result.findings)
    checked, found = counted(result.checked, "recipes"), f"{counted(errors, 'errors')}, {counted(warnings, 'warnings')}"
    out(f"{checked} checked: {found}")


def show_TestResult(result: TestResult) -> None:  # noqa: N802
    _tests(result.tests)
    out(f"generation {result.generation}")


def show_NodeTestResult(result: NodeTestResult) -> None:  # noqa: N802
    for test in result.tests:
        fastest, slowest = f"{test.fastest:.1f}", f"{test.seconds:.1f}"
        known = test.detail if test.status == "skipped" else f"{fastest}{f'-{slowest}' * (slowest != fastest)} s"
        out(f"{test.entry} {test.test}: {test.status} on {test.nodes} ({known})")
        if test.status == "failed":
            for line in test.detail.splitlines()[-12:]:
                out(f"  {line}")
    for missing in result.missing:
        out(f"{missing.status}: {missing.nodes}: {missing.reason}")
    way = "Slurm" if result.via == "slurm" else result.via
    out(f"generation {result.generation}, on {counted(result.count, 'nodes')} by {way}, as {result.user}")


def show_VerifyResult(result: VerifyResult) -> None:  # noqa: N802
    for finding in result.findings:
        out(f"{finding.severity}[{finding.check}]: {finding.where}: {finding.found}")
    bad = {f.where for f in result.findings}
    verb = "differs from its manifest" if len(bad) == 1 else "differ from their manifest"
    out(f"{counted(len(result.checked), 'installs')} verified, {len(bad)} {verb}")


def show_RemoveResult(result: RemoveResult) -> None:  # noqa: N802
    if result.dry_run:
        out(f"would remove {', '.join(result.entries)} from the next generation")
    elif result.generation is None:
        out(f"{', '.join(result.entries)} was removed meanwhile: generation {result.parent} is current")
    else:
        out(f"removed {', '.join(result.entries)}: generation {result.generation} is current (was {result.parent})")
        out("its recipe stays: `envmgr build` or a bare `envmgr publish` publishes it again")
        out(f"installs and older generations stay; `envmgr rollback {result.parent}` brings it back")


def show_HistoryResult(result: HistoryResult) -> None:  # noqa: N802
    rows = [
        [
            "*" if g.current else " ",
            str(g.number),
            g.created,
            f"{g.user}@{g.host}",
            str(g.entries),
            " ".join(g.changes) or "re-rendered",
        ]
        for g in result.generations
    ]
    table(rows, header=["", "gen", "created", "by", "entries", "changes"])
    if not rows:
        out("nothing was published yet")
    for flip in result.flips:
        if str(flip["reason"]).startswith("rollback"):
            out(f"rolled back {flip['from']} -> {flip['to']}  {flip['time']}  {flip['user']}@{flip['host']}")


def show_RollbackResult(result: RollbackResult) -> None:  # noqa: N802
    word = "would be" if result.dry_run else "is"
    out(f"generation {result.after} {word} current (was {result.before}); new shells get it, running ones keep theirs")


def show_DiffResult(result: DiffResult) -> None:  # noqa: N802
    if not result.entries:
        out(f"generations {result.a} and {result.b} have the same entries")
    for entry in result.entries:
        note = " (same install, module text changed)" if entry.change == "module" else ""
        out(f"{entry.entry}: {entry.change}{note}")
        if entry.change == "changed":
            _changes(entry.packages, indent="  ")
        elif entry.packages:
            out(f"  {counted(len(entry.packages), 'packages')}")


def show_GcResult(result: GcResult) -> None:  # noqa: N802
    verb = "would remove" if result.dry_run else "removed"
    for number in result.generations:
        out(f"{verb} generation {number}")
    for path in (*result.installs, *result.leftovers):
        out(f"{verb} {path}")
    if not (result.generations or result.installs or result.leftovers):
        out("nothing to remove")
        return
    generations, installs = counted(len(result.generations), "generations"), counted(len(result.installs), "installs")
    out(f"{verb} {generations}, {installs}, {size_text(result.size)}")


def show_InitResult(result: InitResult) -> None:  # noqa: N802
    out(f"{'would write' if result.dry_run else 'wrote'} {result.site}")
    out(f"catalog: {result.catalog}")
    out(f"prefix:  {result.prefix}")
    if not result.dry_run:
        out("next: `envmgr site check`, then `envmgr copy ENTRY`, or write a recipe")


def show_SiteCheckResult(result: SiteCheckResult) -> None:  # noqa: N802
    out(f"site: {result.source or 'embedded (no site.yaml found): this machine alone'}")
    table([f.status, f.field, f.text + (f"  ({f.hint})" if f.hint else "")] for f in result.facts)


def show_NodeSetupResult(result: NodeSetupResult) -> None:  # noqa: N802
    if result.action == "show":
        for file in result.files:
            out(f"# {file.path}  {file.mode or 'lines'}: {file.why}")
            out(file.text)
    elif result.action == "output":
        out(f"{'would write' if result.dry_run else 'wrote'} {result.output}: README says what is what")
    table([o.status, o.path, o.nodes, o.reason] for o in result.outcomes)
    for failure in result.failures:
        out(f"{failure.status}: {failure.nodes}: {failure.reason}")
    for line in result.to_do:
        out(line)


def show_ShellInitResult(result: ShellInitResult) -> None:  # noqa: N802
    sys.stdout.write(result.text)


def _plan(steps: Sequence[PlanStep], *, rerender: bool) -> None:
    for step in steps:
        c = step.candidate
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
    if not rerender and all(s.build == "reuse" and s.publish == "unchanged" for s in steps):
        out("nothing to do")


def _jobs(jobs: Iterable[BuildJob]) -> None:
    rows = []
    for job in jobs:
        state = "would be submitted" if not job.job else f"{job.job}, under way before" if job.attached else job.job
        after = ", ".join(label.removeprefix("store/") for label in job.after)
        rows.append(["  job", job.item.removeprefix("store/"), state, f"after {after}" if after else ""])
    table(rows)


def _nothing(steps: Sequence[PlanStep], current: int | None, *, built_only: bool) -> None:
    names = ", ".join(str(s.candidate.entry) for s in steps)
    verb = "is" if len(steps) == 1 else "are"
    if built_only:
        out(f"nothing to build: {names} {verb} in the store (`envmgr publish` makes it current)")
    elif names:
        out(f"nothing to do: {names} {verb} published in generation {current}")
    else:
        out("nothing to do: nothing is built that is not published")


def _published(generation: int | None, parent: int | None, steps: Sequence[PlanStep]) -> None:
    if generation is not None:
        names = ", ".join(str(s.candidate.entry) for s in steps if s.publish != "unchanged")
        was = f" (was {parent})" if parent is not None else ""
        out(f"published{f' {names}' if names else ''}: generation {generation} is current{was}")


def _tests(tests: Iterable[SmokeOutcome]) -> None:
    for test in tests:
        out(
            f"test {test.entry} `{test.test}`: {_MARKS[test.status]}{f' ({test.detail})' if test.status == 'skipped' else f' in {test.seconds:.1f} s'}"
        )
        if test.status == "failed":
            for line in test.detail.splitlines()[-12:]:
                out(f"  {line}")


def _changes(changes: Iterable[LockChange], *, indent: str) -> None:
    for change in changes:
        if not change.old:
            out(f"{indent}+ {change.name} {change.new}")
        elif not change.new:
            out(f"{indent}- {change.name} {change.old}")
        else:
            out(f"{indent}~ {change.name} {change.old} -> {change.new}")
