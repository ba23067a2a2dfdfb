"""The verbs between a recipe and a published module: lock, fetch, build, publish."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from envmgr.cli.answer import Answer, shown
from envmgr.cli.options import All, AllowNetwork, BuildVia, DryRun, Format, FormatOption, SiteOption, SomeEntries
from envmgr.cli.run import open_context, open_job, verb
from envmgr.errors import InputError


@verb
def lock(
    entries: SomeEntries = None,
    everything: All = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 when a lock does not answer its recipe; writes nothing.")
    ] = False,
    solver: Annotated[str | None, typer.Option(help="rattler, or conda-lock with the site's conda.")] = None,
    channel: Annotated[
        list[str] | None, typer.Option(help="Solve a channel from another place, once.", metavar="NAME=URL-OR-FOLDER")
    ] = None,
    index: Annotated[
        list[str] | None,
        typer.Option(help="Ask another place for a package index, once.", metavar="NAME=URL-OR-FOLDER"),
    ] = None,
    allow_network: AllowNetwork = False,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """Resolve recipes exactly and write their locks beside them."""
    from envmgr.cli.text.builds import show_lock
    from envmgr.commands.lock import lock_entries

    ctx = open_context(site, fmt, anywhere=True).allowing(network=allow_network)
    places = dict(_pair(text) for text in (*(channel or ()), *(index or ())))
    result = lock_entries(
        ctx, entries or (), everything=everything, check=check, dry_run=dry_run, solver=solver, places=places
    )
    return shown(result, show_lock)


@verb
def fetch(
    entries: SomeEntries = None,
    everything: All = False,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", help="A file that you got by other ways, or a folder of such: a carried cache.", resolve_path=True
        ),
    ] = None,
    carry: Annotated[
        bool, typer.Option("--carry", help="EasyBuild itself, too, for a machine that has another.")
    ] = False,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """Sources and packages into the prefix's cache.

    Installs nothing: a build then needs no network.
    """
    from envmgr.cli.text.builds import show_fetch
    from envmgr.commands.fetch import fetch_entries

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    result = fetch_entries(ctx, entries or (), everything=everything, files=file or (), carry=carry, dry_run=dry_run)
    return shown(result, show_fetch)


@verb
def build(
    entries: SomeEntries = None,
    everything: All = False,
    dry_run: DryRun = False,
    no_publish: Annotated[bool, typer.Option("--no-publish", help="Build into the store only.")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", "-k", help="Publish what succeeds, though other entries fail.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", min=1, help="Installs made side by side, and processes in each.")
    ] = None,
    gate: Annotated[
        bool | None,
        typer.Option(
            "--gate/--no-gate", help="Ask the last audit if all nodes can run it; else as policies.gate says."
        ),
    ] = None,
    via: Annotated[BuildVia, typer.Option(help="Build here, or by one Slurm job for each install.")] = BuildVia.local,
    partition: Annotated[str | None, typer.Option(help="Of Slurm, for the jobs.")] = None,
    account: Annotated[str | None, typer.Option(help="Of Slurm, for the jobs.")] = None,
    cpus: Annotated[int | None, typer.Option(min=1, help="Cores of each job.")] = None,
    allow_network: AllowNetwork = False,
    time: Annotated[str | None, typer.Option(help="Of each job, as Slurm writes it: 90, 4:00:00, 2-0.")] = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """From lock to a published module that loads.

    With --via slurm, Ctrl-C leaves the jobs to themselves; the same command comes back to them.
    """
    from envmgr.cli.text.builds import show_build
    from envmgr.commands.build import build_entries

    ctx = open_context(site, fmt, writes_prefix=not dry_run).allowing(network=allow_network)
    options = None
    slurm = {"--partition": partition, "--account": account, "--cpus": cpus, "--time": time}
    given = [name for name, value in slurm.items() if value is not None]
    if via is BuildVia.local and given:
        raise InputError("bad-job-option", f"{given[0]} is for Slurm jobs", hint="add `--via slurm`")
    if via is BuildVia.slurm and jobs is not None:
        raise InputError("bad-job-option", "--jobs is for builds on this host", hint="--cpus is what each job gets")
    if via is BuildVia.slurm:
        from envmgr.nodes import JobOptions

        options = JobOptions(partition, account, cpus, time)
    result = build_entries(
        ctx,
        entries or (),
        everything=everything,
        dry_run=dry_run,
        publish=not no_publish,
        jobs=jobs or len(os.sched_getaffinity(0)),
        gate=gate,
        slurm=options,
        keep_going=keep_going,
    )
    return shown(result, show_build)


@verb
def build_job(request: Path) -> Answer:
    """What a job of `build --via slurm` runs on its node."""
    from envmgr.builds.slurm.job import run_build_job
    from envmgr.cli.text.builds import show_build_job

    runner, reporter = open_job()
    return shown(run_build_job(request, runner, reporter), show_build_job)


@verb
def publish(
    entries: SomeEntries = None, dry_run: DryRun = False, site: SiteOption = None, fmt: FormatOption = Format.table
) -> Answer:
    """Publish what is built: the named entries, or all."""
    from envmgr.cli.text.builds import show_publish
    from envmgr.commands.publish import publish_entries

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return shown(publish_entries(ctx, entries or (), dry_run=dry_run), show_publish)


def _pair(text: str) -> tuple[str, str]:
    name, equals, place = text.partition("=")
    if not equals or not name or not place:
        raise InputError("bad-channel", f"`{text}` is not NAME=URL-OR-FOLDER")
    return name, place
