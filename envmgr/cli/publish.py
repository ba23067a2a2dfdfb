"""The verbs for generations: publish, remove, rollback, history, diff, sign, gc; and usage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envmgr.cli.options import Candidate, DryRun, Entries, Format, FormatOption, SiteOption, SomeEntries
from envmgr.cli.run import become_build_user, open_context, verb
from envmgr.report import Result


@verb
def publish_verb(
    entries: SomeEntries = None,
    candidate: Candidate = False,
    remove_too: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="ENTRY", help="Take this entry out with the same flip (may be repeated)."),
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Words for the history.")] = "",
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Result:
    """Publish what is built: the named entries, or all."""
    from envmgr.steps.publish import publish_entries

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return publish_entries(
        ctx, entries or (), dry_run=dry_run, candidate=candidate, remove=remove_too or (), reason=reason
    )


@verb
def promote_verb(
    generation: Annotated[
        int | None, typer.Argument(help="Number of the candidate; by default the newest.", metavar="[NUMBER]")
    ] = None,
    rebase: Annotated[
        bool,
        typer.Option("--rebase", help="Make a candidate with the same changes on what is current now; test the rest."),
    ] = False,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Offer it, and candidates before it, to nobody any more; flip nothing.")
    ] = False,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Result:
    """Make a candidate current, without a new build.

    It refuses if a test of the candidate failed on a node, or if another generation became current since it was made.
    """
    from envmgr.errors import InputError
    from envmgr.steps.promote import choose_candidate, promote_candidate, stage_candidate, withdraw_candidate

    if rebase and withdraw:
        raise InputError("promote-what", "--rebase makes a candidate, and --withdraw takes one away: give one of them")
    # Nodes are asked before root becomes the build user, who has no key for them. Staging may take long: then another
    # candidate may be the newest.
    ctx = open_context(site, fmt)
    number = choose_candidate(ctx, generation)
    staged = () if dry_run or rebase or withdraw else stage_candidate(ctx, number)
    ctx = open_context(site, fmt, writes_prefix=not dry_run, told=False)
    if withdraw:
        return withdraw_candidate(ctx, number, dry_run=dry_run)
    return promote_candidate(ctx, number, rebase=rebase, dry_run=dry_run, staged=staged)


@verb
def remove(
    entries: Entries, dry_run: DryRun = False, site: SiteOption = None, fmt: FormatOption = Format.table
) -> Result:
    """Publish a generation without these entries."""
    from envmgr.steps.generations import remove_entries

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return remove_entries(ctx, entries, dry_run=dry_run)


@verb
def history(site: SiteOption = None, fmt: FormatOption = Format.table) -> Result:
    """List generations: time, user, changes.

    `*` marks the current one. Rollbacks come after the list.
    """
    from envmgr.steps.generations import read_history

    ctx = open_context(site, fmt, anywhere=True)
    return read_history(ctx)


@verb
def rollback_verb(
    generation: Annotated[
        int | None, typer.Argument(help="Number of the generation; by default the one before the current one.")
    ] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Result:
    """Make an earlier generation current."""
    from envmgr.steps.generations import roll_back

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return roll_back(ctx, generation, dry_run=dry_run)


@verb
def page(
    generation: Annotated[
        int | None,
        typer.Option("--generation", metavar="N", help="Page of this generation; by default the current one."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Copy the page to this folder, in one step, with status.json."
        ),
    ] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Result:
    """Show or copy the page of the published software.

    Every publish writes this page into its generation.
    """
    from envmgr.cli.render import refuse_missing_folder
    from envmgr.steps.page import show_page

    refuse_missing_folder(output)
    ctx = open_context(site, fmt, anywhere=True)
    return show_page(ctx, generation=generation, output=output, dry_run=dry_run)


@verb
def sign_verb(
    accept_gap: Annotated[
        bool,
        typer.Option(
            "--accept-gap",
            help="Record with a signature that missing flips are lost for good, so that envmgr no longer reports them.",
        ),
    ] = False,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Result:
    """Sign the current generation again.

    Use it where signing began after the generation was published, or where its signature is no longer good.
    """
    from envmgr.steps.generations import sign_current

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return sign_current(ctx, accept_gap=accept_gap, dry_run=dry_run)


@verb
def diff(
    a: Annotated[
        str | None,
        typer.Argument(
            metavar="GENERATION|OUTPUT",
            help="Number of a generation, by default the parent of the other one; or the output file of a job.",
        ),
    ] = None,
    b: Annotated[
        int | None, typer.Argument(metavar="GENERATION", help="Number of a generation; by default the current one.")
    ] = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Result:
    """Show what differs between two generations, or since a job ran.

    It compares entries, packages, versions and defaults; by default the current generation with its parent. With the
    output of a job that `envmgr job` wrote, it compares what this job loaded.
    """
    from envmgr.steps.diff import show_differences

    ctx = open_context(site, fmt, anywhere=True)
    return show_differences(ctx, a, b)


@verb
def gc(
    dry_run: DryRun = False,
    now: Annotated[bool, typer.Option("--now", help="Ignore the age of generations, as if keep_days were 0.")] = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Result:
    """Remove old generations and unused installs.

    The site's `policies` say which generations are old. An install is unused when no remaining generation names it.
    What a process of this host or of a node, or a Slurm job, uses or may use is kept, and reported.
    """
    from envmgr.steps.gc import collect_garbage

    ctx = open_context(site, fmt)
    return collect_garbage(ctx, dry_run=dry_run, now=now, settle=lambda: become_build_user(ctx.site))


@verb
def usage(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Text of journals or syslogs; without one, standard input."),
    ] = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Result:
    """Count how often entries were loaded, in the text of logs.

    With `usage: true` in site.yaml, modules report each load to the syslog of their node. Collect these lines from the
    nodes; envmgr only counts them.
    """
    from envmgr.steps.usage import count_loads

    return count_loads(open_context(site, fmt, anywhere=True), files or ())
