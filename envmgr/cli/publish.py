"""The verbs for generations: publish, remove, rollback, history, diff, sign, gc; and usage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envmgr.cli import VerbAnswer, answer_with
from envmgr.cli.options import Candidate, DryRun, Entries, Format, FormatOption, SiteOption, SomeEntries
from envmgr.cli.run import become_build_user, open_context, verb


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
) -> VerbAnswer:
    """Publish what is built: the named entries, or all."""
    from envmgr.cli.text.builds import show_publish
    from envmgr.commands.publish import publish_entries

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    result = publish_entries(
        ctx, entries or (), dry_run=dry_run, candidate=candidate, remove=remove_too or (), reason=reason
    )
    return answer_with(result, show_publish)


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
) -> VerbAnswer:
    """Make a candidate current, without a new build.

    It refuses if a test of the candidate failed on a node, or if another generation became current since it was made.
    """
    from envmgr.cli.text.builds import show_promote
    from envmgr.commands.promote import choose_candidate, promote_candidate, stage_candidate, withdraw_candidate
    from envmgr.errors import InputError

    if rebase and withdraw:
        raise InputError("promote-what", "--rebase makes a candidate, and --withdraw takes one away: give one of them")
    # Nodes are asked before root becomes the build user, who has no key for them. Staging may take long: then another
    # candidate may be the newest.
    ctx = open_context(site, fmt)
    number = choose_candidate(ctx, generation)
    staged = () if dry_run or rebase or withdraw else stage_candidate(ctx, number)
    ctx = open_context(site, fmt, writes_prefix=not dry_run, told=False)
    if withdraw:
        return answer_with(withdraw_candidate(ctx, number, dry_run=dry_run), show_promote)
    result = promote_candidate(ctx, number, rebase=rebase, dry_run=dry_run, staged=staged)
    return answer_with(result, show_promote)


@verb
def remove(
    entries: Entries, dry_run: DryRun = False, site: SiteOption = None, fmt: FormatOption = Format.table
) -> VerbAnswer:
    """Publish a generation without these entries."""
    from envmgr.cli.text.catalog import show_remove
    from envmgr.commands.generations import remove_entries

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return answer_with(remove_entries(ctx, entries, dry_run=dry_run), show_remove)


@verb
def history(site: SiteOption = None, fmt: FormatOption = Format.table) -> VerbAnswer:
    """List generations: time, user, changes.

    `*` marks the current one. Rollbacks come after the list.
    """
    from envmgr.cli.text.catalog import show_history
    from envmgr.commands.generations import read_history

    ctx = open_context(site, fmt, anywhere=True)
    return answer_with(read_history(ctx), show_history)


@verb
def rollback_verb(
    generation: Annotated[
        int | None, typer.Argument(help="Number of the generation; by default the one before the current one.")
    ] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> VerbAnswer:
    """Make an earlier generation current."""
    from envmgr.cli.text.catalog import show_rollback
    from envmgr.commands.generations import roll_back

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return answer_with(roll_back(ctx, generation, dry_run=dry_run), show_rollback)


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
) -> VerbAnswer:
    """Show or copy the page of the published software.

    Every publish writes this page into its generation.
    """
    from envmgr.cli.render import refuse_missing_folder
    from envmgr.cli.text.catalog import show_page_result
    from envmgr.commands.page import show_page

    refuse_missing_folder(output)
    ctx = open_context(site, fmt, anywhere=True)
    found = show_page(ctx, generation=generation, output=output, dry_run=dry_run)
    return answer_with(found, show_page_result)


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
) -> VerbAnswer:
    """Sign the current generation again.

    Use it where signing began after the generation was published, or where its signature is no longer good.
    """
    from envmgr.cli.text.catalog import show_sign
    from envmgr.commands.generations import sign_current

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return answer_with(sign_current(ctx, accept_gap=accept_gap, dry_run=dry_run), show_sign)


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
) -> VerbAnswer:
    """Show what differs between two generations, or since a job ran.

    It compares entries, packages, versions and defaults; by default the current generation with its parent. With the
    output of a job that `envmgr job` wrote, it compares what this job loaded.
    """
    from envmgr.cli.text.catalog import show_diff
    from envmgr.commands.diff import show_differences

    ctx = open_context(site, fmt, anywhere=True)
    return answer_with(show_differences(ctx, a, b), show_diff)


@verb
def gc(
    dry_run: DryRun = False,
    now: Annotated[bool, typer.Option("--now", help="Ignore the age of generations, as if keep_days were 0.")] = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> VerbAnswer:
    """Remove old generations and unused installs.

    The site's `policies` say which generations are old. An install is unused when no remaining generation names it.
    What a process of this host or of a node, or a Slurm job, uses or may use is kept, and reported.
    """
    from envmgr.cli.text.catalog import show_gc
    from envmgr.commands.gc import collect_garbage

    ctx = open_context(site, fmt)
    found = collect_garbage(ctx, dry_run=dry_run, now=now, settle=lambda: become_build_user(ctx.site))
    return answer_with(found, show_gc)


@verb
def usage(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Text of journals or syslogs; without one, standard input."),
    ] = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> VerbAnswer:
    """Count how often entries were loaded, in the text of logs.

    With `usage: true` in site.yaml, modules report each load to the syslog of their node. Collect these lines from the
    nodes; envmgr only counts them.
    """
    from envmgr.cli.text.usage import show_usage
    from envmgr.commands.usage import count_loads

    return answer_with(count_loads(open_context(site, fmt, anywhere=True), files or ()), show_usage)
