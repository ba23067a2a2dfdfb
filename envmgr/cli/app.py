"""The command line: parse, call one verb, render, exit code. Imports nothing heavy: a verb is imported when it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envmgr import __version__
from envmgr.cli.build import build, build_job, fetch, lock, publish
from envmgr.cli.nodes import audit, node_setup, shell_init, test
from envmgr.cli.options import DryRun, Entries, Format, FormatOption, SiteOption, SomeEntries
from envmgr.cli.run import finish, run_verb

if TYPE_CHECKING:
    from envmgr.commands import Context

app = typer.Typer(
    name="envmgr",
    help="Reproducible software environments for clusters: lock, build, publish as Lmod modules.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich help would import rich for every --help
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
site_app = typer.Typer(help="The site: check and explain it.", no_args_is_help=True, rich_markup_mode=None)
catalog_app = typer.Typer(help="The catalog: check it.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(site_app, name="site")
app.add_typer(catalog_app, name="catalog")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"envmgr {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Reproducible software environments for clusters: lock, build, publish as Lmod modules."""


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where site.yaml and the catalog go.")] = Path(),
    prefix: Annotated[
        Path | None, typer.Option(help="Shared folder for installs and modules, the same path on every node.")
    ] = None,
    name: Annotated[str, typer.Option(help="The cluster's name.")] = "cluster",
    dry_run: DryRun = False,
    fmt: FormatOption = Format.table,
) -> None:
    """Make a site and an empty catalog."""

    def work() -> Any:
        from envmgr.catalog.site import embedded_prefix
        from envmgr.commands.site import init_site

        return init_site(folder, prefix=prefix or embedded_prefix(os.environ), name=name, dry_run=dry_run)

    finish(work, fmt)


@site_app.command("check")
def site_check(site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """Validate the site and explain every setting."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.site import check_site

        return check_site(ctx)

    run_verb(verb, site, fmt)


@app.command("list")
def list_(site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """The tree of entries, each with its state."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.list import list_entries

        return list_entries(ctx)

    run_verb(verb, site, fmt)


@app.command()
def show(entry: Annotated[str, typer.Argument()], site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """One entry: recipe, lock, install, module."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.list import show_entry

        return show_entry(ctx, entry)

    run_verb(verb, site, fmt)


@app.command()
def copy(
    entry: Annotated[str, typer.Argument()],
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> None:
    """Take a shipped recipe into your own catalog."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.catalog import copy_entry

        return copy_entry(ctx, entry, dry_run=dry_run)

    run_verb(verb, site, fmt)


@catalog_app.command("check")
def catalog_check(entries: SomeEntries = None, site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """Check all recipes and all locks; exact places of faults."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.catalog import check_catalog

        return check_catalog(ctx, entries or ())

    run_verb(verb, site, fmt)


app.command()(lock)
app.command()(fetch)
app.command()(build)
app.command("_build-item", hidden=True)(build_job)
app.command()(publish)


@app.command()
def remove(
    entries: Entries, dry_run: DryRun = False, site: SiteOption = None, fmt: FormatOption = Format.table
) -> None:
    """Publish a generation without these entries."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.generations import remove_entries

        return remove_entries(ctx, entries, dry_run=dry_run)

    run_verb(verb, site, fmt, writes_prefix=not dry_run)


@app.command()
def history(site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """Generations: when, by whom, what changed.

    `*` marks the current one; rollbacks follow.
    """

    def verb(ctx: Context) -> Any:
        from envmgr.commands.generations import history

        return history(ctx)

    run_verb(verb, site, fmt)


@app.command()
def rollback(
    generation: Annotated[
        int | None, typer.Argument(help="A generation's number; else the one before the current.")
    ] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> None:
    """Make an earlier generation current."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.generations import roll_back

        return roll_back(ctx, generation, dry_run=dry_run)

    run_verb(verb, site, fmt, writes_prefix=not dry_run)


@app.command()
def diff(
    a: Annotated[int | None, typer.Argument(help="A generation; else the parent of B.")] = None,
    b: Annotated[int | None, typer.Argument(help="A generation; else the current one.")] = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> None:
    """What differs between two generations.

    Entries, packages and versions; by default from the current generation's parent to the current one.
    """

    def verb(ctx: Context) -> Any:
        from envmgr.commands.generations import diff

        return diff(ctx, a, b)

    run_verb(verb, site, fmt)


app.command()(test)


@app.command()
def verify(entries: SomeEntries = None, site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """Hash published installs again.

    Every path is compared with the install's manifest; each difference is a finding.
    """

    def verb(ctx: Context) -> Any:
        from envmgr.commands.check import verify_entries

        return verify_entries(ctx, entries or ())

    run_verb(verb, site, fmt)


app.command()(audit)


@app.command()
def gc(dry_run: DryRun = False, site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """Remove old generations and unused installs.

    Old is what `policies` of the site says; unused is an install that no generation that stays names.
    """

    def verb(ctx: Context) -> Any:
        from envmgr.commands.generations import collect_garbage

        return collect_garbage(ctx, dry_run=dry_run)

    run_verb(verb, site, fmt, writes_prefix=not dry_run)


app.command("node-setup")(node_setup)
app.command("shell-init")(shell_init)


def main() -> None:
    """The entry point."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plugins costs 10 ms at every start
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
    app()
