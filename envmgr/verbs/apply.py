"""`envmgr apply`: from the catalog in git to modules that are tested on nodes, promoted and audited.

Each step is a verb of its own, in a process of its own: it becomes whom it has to, and its result is what it prints as JSON.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from envmgr.builds.prepare import can_write
from envmgr.errors import EnvmgrError, InputError
from envmgr.publish.records import current_number, read_current, read_record
from envmgr.report import Lines, Result
from envmgr.steps import Context
from envmgr.steps.apply_steps import MADE, STEPS, ApplyOptions, ApplyStep, Last, Run, Target, asked_by, commits_of
from envmgr.steps.changed_entries import EntryDiff, Generation, changed_entries
from envmgr.steps.markdown import md_cell, md_table
from envmgr.store.state_file import change_state, writing_as
from envmgr.system.files import atomic_write, pretty_json
from envmgr.system.lock_holder import held_by
from envmgr.system.untrusted_files import FACTS, read_json
from envmgr.verbs import DryRun, NodesOption, OutputOption, PartitionOption, ViaOption, needs, option


@dataclass(frozen=True, slots=True)
class AppliedEntry:
    """An entry that differs from what was current: `digest` names its install, empty where it went."""

    entry: str
    change: str
    before: str
    digest: str
    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApplyResult(Result):
    """The result of `apply`. `commits` maps the site's own catalogs to their commits, empty for one that is not in git.

    `before` was current, `candidate` was made, `current` is current now.
    """

    schema: ClassVar[str] = "envmgr.apply/1"
    to: Target
    commits: dict[str, str]
    steps: tuple[ApplyStep, ...]
    before: int | None
    candidate: int | None
    current: int | None
    entries: tuple[AppliedEntry, ...]
    dry_run: bool
    code: int = 0

    @property
    def exit_code(self) -> int:
        return self.code

    def lines(self) -> Lines:
        for step in self.steps:
            yield f"{step.name}: {step.status}{f' in {step.seconds:.1f} s' if step.status in ('ok', 'failed') else ''}"
            for line in step.said:
                yield f"  {line}"
            if step.hint:
                yield f"  hint: {step.hint}"
        for entry in self.entries:
            yield f"{entry.entry}: {_digests(entry)}"
            for line in entry.packages:
                yield f"  {line}"


@needs("mount")
def apply(
    ctx: Context,
    to: Annotated[
        Literal["candidate", "current"], option("End with a candidate that is tested and audited, or make it current.")
    ] = "candidate",
    nodes: NodesOption = None,
    via: ViaOption = None,
    build_via: Annotated[
        Literal["local", "slurm"], option("Build on this machine, or in one Slurm job for each install.")
    ] = "local",
    partition: PartitionOption = None,
    gate: Annotated[
        bool | None,
        option("Ask the last audit whether nodes can run the entries; see `build`.", None, "--gate/--no-gate"),
    ] = None,
    output: OutputOption = None,
    dry_run: DryRun = False,
) -> ApplyResult:
    """Bring modules to what the catalogs in git say.

    It checks, builds, tests on nodes, promotes and audits, and stops at the first step that fails. Run it again after a
    fix or a kill: what was done stays done.
    """
    words = ["--via", build_via] + (["--partition", partition] if partition else [])
    words += [] if gate is None else ["--gate" if gate else "--no-gate"]
    result = _locked(ctx, ApplyOptions(to, nodes, via, tuple(words), dry_run))
    if output is not None and dry_run:
        ctx.reporter.say(f"would write {output}")
    elif output is not None:
        try:
            atomic_write(output, apply_markdown(result))
        except EnvmgrError as error:  # modules may have changed: the answer is not lost with the file
            ctx.reporter.say(f"warning: the report is not written: {error.message}")
    return result


def _locked(ctx: Context, options: ApplyOptions) -> ApplyResult:
    """Apply, after another run has ended. Raise InputError `catalog-uncommitted`, `nothing-to-apply`."""

    def waiting(holder: str) -> None:
        ctx.reporter.say(f"waiting for {holder}, which applies")

    lock = ctx.prefix.locks / "apply.lock"
    if options.dry_run or not lock.parent.is_dir():  # before the first build there is nothing that two could spoil
        return _apply(ctx, options)
    become = writing_as(ctx.site)
    if not become:  # else that user writes, who may be able to where root is not
        can_write(ctx.site)
    with held_by(become, lock, on_wait=waiting, check=ctx.runner.raise_if_cancelled):
        return _apply(ctx, options)


def _apply(ctx: Context, options: ApplyOptions) -> ApplyResult:
    commits = commits_of(ctx)
    names, gone = _declared(ctx)
    before = current_number(ctx.prefix)
    reason = f"{MADE} {' '.join(name[:12] for name in commits.values() if name)}".strip()
    run = Run(ctx, options, names, gone, reason, before, _read_last(ctx), commits)
    for name, do in STEPS.items():
        began = time.monotonic()
        step = do(run) if run.code == 0 else ApplyStep(name, "not reached")
        run.steps[name] = replace(step, seconds=round(time.monotonic() - began, 1))
        if step.status == "failed":
            run.code = run.code or 1
    current = current_number(ctx.prefix)
    if not options.dry_run:
        asked = asked_by(ctx, options)
        _keep_last(ctx, Last(generation=run.candidate or current, audited=run.code == 0, asked=asked))
    steps, made, entries = tuple(run.steps.values()), run.candidate, _entries(ctx, before, run.candidate)
    return ApplyResult(options.to, commits, steps, before, made, current, entries, options.dry_run, run.code)


def _declared(ctx: Context) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the entries of the site's own catalogs, and the published entries that no catalog has any more."""
    missing = [root for root in ctx.site.catalogs if not root.is_dir()]
    names = tuple(str(each.entry) for each in ctx.catalog.entries() if not each.shipped)
    if missing or not names:  # an empty mount must not look like a catalog from which all was taken
        context = [f"{root} is missing" for root in missing] or [*map(str, ctx.site.catalogs[:-1])]
        hint = "`envmgr copy ENTRY` takes a shipped entry into them; `catalogs` in site.yaml names the folders"
        raise InputError("nothing-to-apply", "the site's own catalogs have no entry", context=context, hint=hint)
    catalog = ctx.catalog
    record = read_current(ctx.prefix)
    published = () if record is None else sorted(record.entries)
    return names, tuple(name for name in published if catalog.look(catalog.parse(name)) is None)


def _entries(ctx: Context, before: int | None, after: int | None) -> tuple[AppliedEntry, ...]:
    if after is None:
        return ()
    if before is None:
        entries = read_record(ctx.prefix, after).entries
        return tuple(AppliedEntry(name, "added", "", entry.digest, ()) for name, entry in entries.items())
    old, new = Generation(ctx.prefix, before), Generation(ctx.prefix, after)
    first, last = ({name: entry.digest for name, entry in of.entries.items()} for of in (old, new))
    return tuple(
        AppliedEntry(each.entry, each.change, first.get(each.entry, ""), last.get(each.entry, ""), _packages(each))
        for each in changed_entries({*old.entries, *new.entries}, old, new)
    )


def _packages(each: EntryDiff) -> tuple[str, ...]:
    if each.change != "changed":
        return ()
    return tuple(f"{p.name} {p.old or 'none'} -> {p.new or 'none'}" for p in each.packages)


def _last_file(ctx: Context) -> Path:
    return ctx.prefix.root / "var" / "apply.json"


def _read_last(ctx: Context) -> Last:
    try:
        return Last.model_validate(read_json(_last_file(ctx), FACTS))
    except (OSError, ValueError, EnvmgrError):  # without it the audit runs once more
        return Last()


def _keep_last(ctx: Context, last: Last) -> None:
    text = pretty_json(last.model_dump(mode="json"))
    if why := change_state(_last_file(ctx), lambda _: text, ctx.site, check=ctx.runner.raise_if_cancelled):
        ctx.reporter.say(f"warning: the next run audits again: {why}")


def apply_markdown(result: ApplyResult) -> str:
    """Return the report of an `apply`."""
    made = f"generation {result.candidate}" if result.candidate is not None else "no new generation"
    state = "failed" if result.code else "done"
    lines = [f"# apply: {state}, {made}", ""]
    lines += [f"- {md_cell(root)} at commit `{name or 'none'}`" for root, name in result.commits.items()]
    lines += [f"- current: generation {result.current or 'none'} (was {result.before or 'none'})", ""]
    rows = []
    for step in result.steps:
        said = [*step.said, *([f"hint: {step.hint}"] if step.hint else [])]
        end = "**failed**" if step.status == "failed" else step.status
        rows.append([step.name, end, f"{step.seconds:.1f} s", "<br>".join(map(md_cell, said))])
    lines += md_table(["step", "end", "time", "what was seen"], rows)
    if result.entries:
        changed = [[e.entry, e.change, _digests(e), "<br>".join(map(md_cell, e.packages))] for e in result.entries]
        lines += ["", *md_table(["entry", "change", "install", "packages"], changed)]
    return "\n".join(lines) + "\n"


def _digests(entry: AppliedEntry) -> str:
    short = [digest[:8] or "none" for digest in (entry.before, entry.digest)]
    return f"{short[0]} -> {short[1]}" if short[0] != short[1] else f"{short[0]} (module text changed)"
