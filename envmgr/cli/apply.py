"""The verbs from a catalog in git to modules: apply, and the report for a merge request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from envmgr.cli import options
from envmgr.cli.run import open_context, verb
from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Result


@verb
def apply_verb(
    to: Annotated[
        Literal["candidate", "current"],
        typer.Option(help="End with a candidate that is tested and audited, or make it current."),
    ] = "candidate",
    nodes: options.NodesOption = None,
    via: options.ViaOption = None,
    build_via: Annotated[
        Literal["local", "slurm"], typer.Option(help="Build on this machine, or in one Slurm job for each install.")
    ] = "local",
    partition: options.PartitionOption = None,
    gate: Annotated[
        bool | None,
        typer.Option("--gate/--no-gate", help="Ask the last audit whether nodes can run the entries; see `build`."),
    ] = None,
    output: options.OutputOption = None,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Bring modules to what the catalogs in git say.

    It checks, builds, tests on nodes, promotes and audits, and stops at the first step that fails. Run it again after a
    fix or a kill: what was done stays done.
    """
    from envmgr.cli.render import refuse_missing_folder
    from envmgr.steps.apply import apply_catalog, apply_markdown
    from envmgr.steps.apply_steps import ApplyOptions
    from envmgr.system.files import atomic_write

    refuse_missing_folder(output)
    ctx = open_context(site, fmt)
    words = ["--via", build_via] + (["--partition", partition] if partition else [])
    words += [] if gate is None else ["--gate" if gate else "--no-gate"]
    result = apply_catalog(ctx, ApplyOptions(to, nodes, via, tuple(words), dry_run))
    if output is not None and dry_run:
        ctx.reporter.say(f"would write {output}")
    elif output is not None:
        try:
            atomic_write(output, apply_markdown(result))
        except EnvmgrError as error:  # modules may have changed: the answer is not lost with the file
            ctx.reporter.say(f"warning: the report is not written: {error.message}")
    return result


@verb
def report(
    entries: options.SomeEntries = None,
    pull_request: Annotated[
        bool, typer.Option("--pull-request", help="Write the comment for a merge request; nothing is run.")
    ] = False,
    catalog: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Look at this folder of recipes instead of the site's own.")
    ] = None,
    output: options.OutputOption = None,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Show what a change of the catalog would do.

    It reads recipes and locks, and runs nothing of them. The exit code is 1 if `catalog check` finds an error.
    """
    from envmgr.cli.render import refuse_missing_folder
    from envmgr.steps.report import report_change, report_markdown
    from envmgr.system.files import atomic_write

    if not pull_request:
        raise InputError("report-what", "say what the report is for", hint="`envmgr report --pull-request`")
    refuse_missing_folder(output)
    ctx = open_context(site, fmt, anywhere=True)
    result = report_change(ctx, entries or (), catalog=catalog)
    if output is not None and dry_run:
        ctx.reporter.say(f"would write {output}")
    elif output is not None:
        atomic_write(output, report_markdown(result))
    return result
