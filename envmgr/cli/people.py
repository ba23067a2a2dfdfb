"""The verbs of `envmgr user`: packages of a user's own on a published entry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envmgr.cli import options
from envmgr.cli.run import open_context, verb
from envmgr.report import Result

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the environment; its module is user/NAME.")]
Packages = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PACKAGE]", help="Packages as pip has them, such as einops or scipy>=1.11."),
]
Requirements = Annotated[
    Path | None, typer.Option("--requirements", "-r", metavar="FILE", help="Also take the packages of this file.")
]
Replace = Annotated[
    list[str] | None,
    typer.Option("--replace", metavar="PACKAGE", help="Take a copy of your own of this package of the entry."),
]
Jobs = Annotated[int, typer.Option("--jobs", min=0, metavar="N", help="Processes at once; by default one a core.")]


@verb
def create(
    name: Name,
    packages: Packages = None,
    on: Annotated[
        str | None, typer.Option("--on", metavar="ENTRY", help="The published entry, as name/version.")
    ] = None,
    requirements: Requirements = None,
    replace: Replace = None,
    editable: Annotated[
        list[Path] | None,
        typer.Option(
            "--editable", metavar="FOLDER", help="Use the Python files of this folder as they are, not locked."
        ),
    ] = None,
    from_lock: Annotated[
        Path | None, typer.Option("--from-lock", metavar="FILE", help="Take exactly the packages of this lock.")
    ] = None,
    at: Annotated[
        Path | None, typer.Option("--at", metavar="FOLDER", help="Put it there, and not below ~/.local/share.")
    ] = None,
    jobs: Jobs = 0,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Make an environment of your own packages on a published entry.

    It has only what the entry lacks, and no package of the entry a second time. Load it by `module load user/NAME`.
    """
    from envmgr.steps.user import create_environment

    ctx = open_context(site, fmt, anywhere=True)
    return create_environment(
        ctx,
        name,
        on=on,
        packages=packages or (),
        file=requirements,
        replaced=replace or (),
        editable=editable or (),
        from_lock=from_lock,
        at=at,
        jobs=jobs,
        dry_run=dry_run,
    )


@verb
def add(
    name: Name,
    packages: Packages = None,
    requirements: Requirements = None,
    replace: Replace = None,
    jobs: Jobs = 0,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Add packages to an environment."""
    from envmgr.people.wishes import with_packages
    from envmgr.steps.user import change_environment

    ctx = open_context(site, fmt, anywhere=True)
    change = with_packages(packages or (), requirements, replace or (), ctx.runner, ctx.reporter)
    return change_environment(ctx, name, change, jobs=jobs, dry_run=dry_run)


@verb
def remove(
    name: Name,
    packages: Annotated[list[str], typer.Argument(metavar="PACKAGE", help="Packages that you asked for.")],
    jobs: Jobs = 0,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Take packages out of an environment."""
    from envmgr.people.wishes import without_packages
    from envmgr.steps.user import change_environment

    ctx = open_context(site, fmt, anywhere=True)
    return change_environment(ctx, name, without_packages(packages), jobs=jobs, dry_run=dry_run)


@verb
def update(
    name: Name,
    rebase: Annotated[bool, typer.Option("--rebase", help="Take the install that the entry has now.")] = False,
    jobs: Jobs = 0,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Choose the packages of an environment again."""
    from envmgr.people.wishes import unchanged
    from envmgr.steps.user import change_environment

    ctx = open_context(site, fmt, anywhere=True)
    return change_environment(ctx, name, unchanged, rebase=rebase, jobs=jobs, dry_run=dry_run)


@verb
def doctor(site: options.SiteOption = None, fmt: options.FormatOption = options.Format.table) -> Result:
    """Find what is wrong with your own shells and files.

    It looks as you, and changes nothing. The exit code is 1 if something is wrong.
    """
    from envmgr.steps.doctor import examine

    return examine(open_context(site, fmt, anywhere=True, away=True))


@verb
def kernel(
    name: Name,
    remove: Annotated[bool, typer.Option("--remove", help="Take the kernel away.")] = False,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Let Jupyter offer an environment as a kernel."""
    from envmgr.steps.user_kernel import make_kernel

    ctx = open_context(site, fmt, anywhere=True)
    return make_kernel(ctx, name, remove=remove, dry_run=dry_run)


@verb
def list_(site: options.SiteOption = None, fmt: options.FormatOption = options.Format.table) -> Result:
    """List your environments, with their state."""
    from envmgr.steps.user_list import list_environments

    return list_environments(open_context(site, fmt, anywhere=True, away=True))


@verb
def show(name: Name, site: options.SiteOption = None, fmt: options.FormatOption = options.Format.table) -> Result:
    """Show the packages of an environment."""
    from envmgr.steps.user_list import show_environment as look

    return look(open_context(site, fmt, anywhere=True, away=True), name)


@verb
def export(
    name: Name,
    output: options.OutputOption = None,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Write the lock of an environment, for a colleague."""
    from envmgr.cli.render import refuse_missing_folder
    from envmgr.steps.user_list import export_environment

    refuse_missing_folder(output)
    ctx = open_context(site, fmt, anywhere=True, away=True)
    return export_environment(ctx, name, output, dry_run=dry_run)


@verb
def delete(
    name: Name,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Delete an environment and its module."""
    from envmgr.steps.user_list import delete_environment

    ctx = open_context(site, fmt, anywhere=True, away=True)
    return delete_environment(ctx, name, dry_run=dry_run)
