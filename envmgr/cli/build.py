"""The verbs from a recipe to an install: lock, fetch, build."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from envmgr.cli import options
from envmgr.cli.run import open_context, open_job, verb
from envmgr.errors import InputError
from envmgr.report import Result

_PLACE = "NAME=URL-OR-FOLDER"


@verb
def lock(
    entries: options.SomeEntries = None,
    everything: options.All = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Write nothing; solve with the locked packages, and exit with 1 if a lock has others."
        ),
    ] = False,
    upgrade: Annotated[
        list[str] | None,
        typer.Option(
            help="Move this package and what it needs, and keep the others as they are in the lock.", metavar="PACKAGE"
        ),
    ] = None,
    solver: Annotated[
        str | None, typer.Option(metavar="NAME", help="Solve with rattler, or with conda-lock and the site's conda.")
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option(help="Use another place for a channel, this time only.", metavar=_PLACE)
    ] = None,
    index: Annotated[
        list[str] | None, typer.Option(help="Use another place for a package index, this time only.", metavar=_PLACE)
    ] = None,
    allow_network: options.AllowNetwork = False,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Resolve recipes exactly and write their locks beside them."""
    from envmgr.backends import LockOptions
    from envmgr.steps.lock import lock_entries

    ctx = open_context(site, fmt, anywhere=True).allowing(network=allow_network)
    places = dict(_pair(text) for text in (*(channel or ()), *(index or ())))
    return lock_entries(
        ctx,
        entries or (),
        everything=everything,
        check=check,
        dry_run=dry_run,
        options=LockOptions(solver, places, tuple(upgrade or ())),
    )


@verb
def fetch_verb(
    entries: options.SomeEntries = None,
    everything: options.All = False,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file",
            metavar="PATH",
            help="Take this file that you downloaded, or this folder of such files.",
            resolve_path=True,
        ),
    ] = None,
    carry: Annotated[
        bool, typer.Option("--carry", help="Fetch EasyBuild too, for a machine that has another version.")
    ] = False,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Download sources and packages into the prefix's cache.

    It installs nothing. A later build needs no network.
    """
    from envmgr.steps.fetch import fetch_entries

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return fetch_entries(ctx, entries or (), everything=everything, files=file or (), carry=carry, dry_run=dry_run)


@verb
def build(
    entries: options.SomeEntries = None,
    everything: options.All = False,
    dry_run: options.DryRun = False,
    no_publish: Annotated[
        bool, typer.Option("--no-publish", help="Build into the store, and publish nothing.")
    ] = False,
    candidate: options.Candidate = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="Make what is built once more, compare, and exchange it where it is damaged."),
    ] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", "-k", help="Publish the entries that succeed even if others fail.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j", "--jobs", min=1, metavar="N", help="Make this many installs at once, each with this many processes."
        ),
    ] = None,
    gate: Annotated[
        bool | None,
        typer.Option(
            "--gate/--no-gate",
            help="Check with the last audit that all nodes can run the entries; by default policies.gate decides.",
        ),
    ] = None,
    via: Annotated[
        Literal["local", "slurm"], typer.Option(help="Build on this machine, or in one Slurm job for each install.")
    ] = "local",
    partition: options.PartitionOption = None,
    account: options.AccountOption = None,
    cpus: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of cores for each Slurm job.")] = None,
    allow_network: options.AllowNetwork = False,
    time: options.TimeOption = None,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Build what locks name, and publish it as modules.

    With --via slurm, Ctrl-C leaves the jobs running; run the same command again to follow them.
    """
    from envmgr.steps.build import build_entries

    ctx = open_context(site, fmt, writes_prefix=not dry_run).allowing(network=allow_network)
    if again:
        from envmgr.steps.again import build_entries_again

        if everything or no_publish or candidate or keep_going or gate is not None or via == "slurm":
            raise InputError("build-what", "--again takes entries, and no other option than --dry-run and --jobs")
        cores = jobs or len(os.sched_getaffinity(0))
        return build_entries_again(ctx, entries or (), jobs=cores, dry_run=dry_run)
    slurm = None
    of_slurm = {"--partition": partition, "--account": account, "--cpus": cpus, "--time": time}
    given = [name for name, value in of_slurm.items() if value is not None]
    if via == "local" and given:
        raise InputError("bad-job-option", f"{given[0]} is for Slurm jobs", hint="add `--via slurm`")
    if via == "slurm" and jobs is not None:
        raise InputError("bad-job-option", "--jobs is for builds on this host", hint="--cpus is what each job gets")
    if via == "slurm":
        from envmgr.nodes.jobs import JobOptions

        slurm = JobOptions(partition, account, cpus, time)
    return build_entries(
        ctx,
        entries or (),
        everything=everything,
        dry_run=dry_run,
        publish=not no_publish,
        jobs=jobs or len(os.sched_getaffinity(0)),
        gate=gate,
        slurm=slurm,
        keep_going=keep_going,
        candidate=candidate,
    )


@verb
def build_job(request: Path) -> Result:
    """Run one job of `build --via slurm` on its node."""
    from envmgr.builds.slurm.job import run_build_job

    runner, reporter = open_job()
    return run_build_job(request, runner, reporter)


def _pair(text: str) -> tuple[str, str]:
    name, equals, place = text.partition("=")
    if not equals or not name or not place:
        raise InputError("bad-channel", f"`{text}` is not {_PLACE}")
    return name, place
