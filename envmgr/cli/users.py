"""The verbs for what users and other tools take from a published generation: job, export, shell-init; schema, for
the programs that read it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envmgr.cli import options
from envmgr.cli.run import open_context, verb
from envmgr.report import Result


@verb
def job(
    entry: Annotated[
        str | None, typer.Argument(metavar="[ENTRY]", help="A published entry, as name/version; or use --env.")
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND]", help="Command that the job runs; by default an example."),
    ] = None,
    count: Annotated[
        int, typer.Option("-N", min=1, metavar="COUNT", help="Number of nodes that the job asks for.")
    ] = 1,
    gpus: Annotated[
        int, typer.Option("--gpus", min=0, metavar="G", help="Number of GPUs that the job asks for on each node.")
    ] = 0,
    processes: Annotated[
        int | None,
        typer.Option(
            "--ntasks-per-node",
            min=1,
            metavar="P",
            help="Number of processes on each node; by default one for each GPU, or one without GPUs.",
        ),
    ] = None,
    cpus: Annotated[
        int | None, typer.Option("--cpus", min=1, metavar="C", help="Number of cores for each process.")
    ] = None,
    venv: Annotated[
        Path | None,
        typer.Option(
            "--venv",
            metavar="DIR",
            help="Virtual environment that the job activates; by default the one that this shell has activated.",
        ),
    ] = None,
    env: Annotated[
        str | None, typer.Option("--env", metavar="NAME", help="Load your environment user/NAME in place of an entry.")
    ] = None,
    time: options.TimeOption = None,
    partition: options.PartitionOption = None,
    account: options.AccountOption = None,
    output: options.OutputOption = None,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Print a script for sbatch that runs an entry.

    It loads the module, starts processes as the entry's MPI or torchrun needs, and writes to the job's log what ran.
    """
    from envmgr.cli.render import refuse_missing_folder
    from envmgr.nodes.jobs import JobOptions
    from envmgr.steps.job import write_job

    refuse_missing_folder(output)
    ctx = open_context(site, fmt)
    return write_job(
        ctx,
        entry,
        command or (),
        nodes=count,
        processes=processes,
        gpus=gpus,
        output=output,
        venv=venv,
        env=env,
        dry_run=dry_run,
        options=JobOptions(partition=partition, account=account, cpus=cpus, time=time),
    )


@verb
def export(
    to: Annotated[
        str, typer.Option("--to", help="Name of the tool or format, such as reframe or pixi.", metavar="TOOL")
    ],
    entries: options.SomeEntries = None,
    output: options.OutputOption = None,
    system: Annotated[
        str | None, typer.Option(help="Name of the cluster in the file; by default the site's name.", metavar="NAME")
    ] = None,
    nodes: Annotated[
        str | None, typer.Option(help="Write only these nodes of the groups, such as c[1-3].", metavar="SET")
    ] = None,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Write entries, or an entry's lock, as another tool's file.

    ReFrame gets a configuration with one partition for each node group and one environment for each entry. The lock of
    one entry becomes a file for conda, pixi, pip or uv.
    """
    from envmgr.cli.render import refuse_missing_folder
    from envmgr.exchange import writers
    from envmgr.steps.exchange import export_lock
    from envmgr.steps.export import export_entries

    refuse_missing_folder(output)
    if to in writers():
        ctx, of_cluster = open_context(site, fmt, anywhere=True), system is not None or nodes is not None
        return export_lock(ctx, entries or [], to=to, of_cluster=of_cluster, output=output, dry_run=dry_run)
    ctx = open_context(site, fmt)
    return export_entries(ctx, entries or (), to=to, system=system, nodes=nodes, output=output, dry_run=dry_run)


@verb
def shell_init(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|sh|csh|tcsh|fish", help="Name of the shell.")] = "bash",
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Print the lines that make a shell use the prefix.

    Put this into a start-up file of the shell: eval "$(envmgr shell-init)".
    """
    from envmgr.steps.shell_init import shell_lines

    ctx = open_context(site, fmt, told=False)
    return shell_lines(ctx, shell)


@verb
def schema(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="VERB", help="The verb, such as build or user create; or error.")
    ] = None,
    fmt: options.FormatOption = options.Format.table,  # noqa: ARG001 - `verb` looks at it
) -> Result:
    """Print the JSON schema of what a verb prints.

    Without VERB it lists all schemas.
    """
    from envmgr.steps.schema import find_schema, list_schemas

    return find_schema(words) if words else list_schemas()
