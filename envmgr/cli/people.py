"""The verbs of `envmgr user`: packages of a user's own on a published entry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envmgr.cli import VerbAnswer, answer_with, options
from envmgr.cli.run import open_context, verb

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
) -> VerbAnswer:
    """Make an environment of your own packages on a published entry.

    It has only what the entry lacks, and no package of the entry a second time. Load it by `module load user/NAME`.
    """
    from envmgr.cli.text.people import show_change
    from envmgr.commands.user import create_environment

    ctx = open_context(site, fmt, anywhere=True)
    result = create_environment(
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
    return answer_with(result, show_change)


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
) -> VerbAnswer:
    """Add packages to an environment."""
    from envmgr.cli.text.people import show_change
    from envmgr.commands.user import change_environment
    from envmgr.people.wishes import with_packages

    ctx = open_context(site, fmt, anywhere=True)
    change = with_packages(packages or (), requirements, replace or (), ctx.runner, ctx.reporter)
    return answer_with(change_environment(ctx, name, change, jobs=jobs, dry_run=dry_run), show_change)


@verb
def remove(
    name: Name,
    packages: Annotated[list[str], typer.Argument(metavar="PACKAGE", help="Packages that you asked for.")],
    jobs: Jobs = 0,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> VerbAnswer:
    """Take packages out of an environment."""
    from envmgr.cli.text.people import show_change
    from envmgr.commands.user import change_environment
    from envmgr.people.wishes import without_packages

    ctx = open_context(site, fmt, anywhere=True)
    result = change_environment(ctx, name, without_packages(packages), jobs=jobs, dry_run=dry_run)
    return answer_with(result, show_change)


@verb
def update(
    name: Name,
    rebase: Annotated[bool, typer.Option("--rebase", help="Take the install that the entry has now.")] = False,
    jobs: Jobs = 0,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> VerbAnswer:
    """Choose the packages of an environment again."""
    from envmgr.cli.text.people import show_change
    from envmgr.commands.user import change_environment
    from envmgr.people.wishes import unchanged

    ctx = open_context(site, fmt, anywhere=True)
    result = change_environment(ctx, name, unchanged, rebase=rebase, jobs=jobs, dry_run=dry_run)
    return answer_with(result, show_change)


@verb
def doctor(site: options.SiteOption = None, fmt: options.FormatOption = options.Format.table) -> VerbAnswer:
    """Find what is wrong with your own shells and files.

    It looks as you, and changes nothing. The exit code is 1 if something is wrong.
    """
    from envmgr.cli.text.people import show_doctor
    from envmgr.commands.doctor import examine

    return answer_with(examine(open_context(site, fmt, anywhere=True, away=True)), show_doctor)


@verb
def kernel(
    name: Name,
    remove: Annotated[bool, typer.Option("--remove", help="Take the kernel away.")] = False,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> VerbAnswer:
    """Let Jupyter offer an environment as a kernel."""
    from envmgr.cli.text.people import show_kernel
    from envmgr.commands.user_kernel import make_kernel

    ctx = open_context(site, fmt, anywhere=True)
    return answer_with(make_kernel(ctx, name, remove=remove, dry_run=dry_run), show_kernel)


@verb
def list_(site: options.SiteOption = None, fmt: options.FormatOption = options.Format.table) -> VerbAnswer:
    """List your environments, with their state."""
    from envmgr.cli.text.people import show_environments
    from envmgr.commands.user_list import list_environments

    return answer_with(list_environments(open_context(site, fmt, anywhere=True, away=True)), show_environments)


@verb
def show(name: Name, site: options.SiteOption = None, fmt: options.FormatOption = options.Format.table) -> VerbAnswer:
    """Show the packages of an environment."""
    from envmgr.cli.text.people import show_environment
    from envmgr.commands.user_list import show_environment as look

    return answer_with(look(open_context(site, fmt, anywhere=True, away=True), name), show_environment)


@verb
def export(
    name: Name,
    output: options.OutputOption = None,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> VerbAnswer:
    """Write the lock of an environment, for a colleague."""
    from envmgr.cli.render import refuse_missing_folder
    from envmgr.cli.text.people import show_lock
    from envmgr.commands.user_list import export_environment

    refuse_missing_folder(output)
    ctx = open_context(site, fmt, anywhere=True, away=True)
    return answer_with(export_environment(ctx, name, output, dry_run=dry_run), show_lock)


@verb
def delete(
    name: Name,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> VerbAnswer:
    """Delete an environment and its module."""
    from envmgr.cli.text.people import show_deleted
    from envmgr.commands.user_list import delete_environment

    ctx = open_context(site, fmt, anywhere=True, away=True)
    return answer_with(delete_environment(ctx, name, dry_run=dry_run), show_deleted)
