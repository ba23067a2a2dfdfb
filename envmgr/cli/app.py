"""The command line: parse, call one verb, render, exit code. Imports nothing heavy: a verb is imported when it runs."""

from __future__ import annotations

import gc as collector  # `gc` is a verb
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from envmgr import __version__
from envmgr.cli.answer import Answer, shown
from envmgr.cli.build import build, build_job, fetch, lock, publish
from envmgr.cli.narrow import narrowed
from envmgr.cli.nodes import adopt, audit, export, job, node_setup, shell_init, test
from envmgr.cli.options import DryRun, Entries, Format, FormatOption, SiteOption, SomeEntries
from envmgr.cli.run import open_context, settle, verb
from envmgr.cli.verify import verify

_COLLECTED = 100_000
"""Objects between two looks of Python's collector: a start makes some 50,000 that stay, and looking at them takes a twelfth of it."""

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
@verb
def init(
    folder: Annotated[Path, typer.Argument(help="Where site.yaml and the catalog go.")] = Path(),
    prefix: Annotated[
        Path | None, typer.Option(help="Shared folder for installs and modules, the same path on every node.")
    ] = None,
    name: Annotated[str, typer.Option(help="The cluster's name.")] = "cluster",
    dry_run: DryRun = False,
    fmt: FormatOption = Format.table,  # noqa: ARG001 - `verb` looks at it
) -> Answer:
    """Make a site and an empty catalog."""
    from envmgr.catalog.site import embedded_prefix
    from envmgr.cli.text.catalog import show_init
    from envmgr.commands.init import init_site

    chosen = prefix or embedded_prefix(os.environ)
    return shown(init_site(folder, prefix=chosen, name=name, dry_run=dry_run), show_init)


@site_app.command("check")
@verb
def site_check(site: SiteOption = None, fmt: FormatOption = Format.table) -> Answer:
    """Validate the site and explain every setting."""
    from envmgr.cli.text.catalog import show_site_check
    from envmgr.commands.site import check_site

    ctx = open_context(site, fmt, anywhere=True)
    return shown(check_site(ctx), show_site_check)


@app.command("list")
@verb
def list_(site: SiteOption = None, fmt: FormatOption = Format.table) -> Answer:
    """The tree of entries, each with its state."""
    from envmgr.cli.text.catalog import show_list
    from envmgr.commands.list import list_entries

    ctx = open_context(site, fmt, anywhere=True)
    return shown(list_entries(ctx), show_list)


@app.command()
@verb
def show(entry: Annotated[str, typer.Argument()], site: SiteOption = None, fmt: FormatOption = Format.table) -> Answer:
    """One entry: recipe, lock, install, module."""
    from envmgr.cli.text.catalog import show_one_entry
    from envmgr.commands.list import show_entry

    ctx = open_context(site, fmt, anywhere=True)
    return shown(show_entry(ctx, entry), show_one_entry)


@app.command()
@verb
def copy(
    entry: Annotated[str, typer.Argument()],
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """Take a shipped recipe into your own catalog."""
    from envmgr.cli.text.catalog import show_copy
    from envmgr.commands.catalog import copy_entry

    ctx = open_context(site, fmt, anywhere=True)
    return shown(copy_entry(ctx, entry, dry_run=dry_run), show_copy)


@catalog_app.command("check")
@verb
def catalog_check(entries: SomeEntries = None, site: SiteOption = None, fmt: FormatOption = Format.table) -> Answer:
    """Check all recipes and all locks; exact places of faults."""
    from envmgr.cli.text.catalog import show_check
    from envmgr.commands.catalog import check_catalog

    ctx = open_context(site, fmt, anywhere=True)
    return shown(check_catalog(ctx, entries or ()), show_check)


app.command()(lock)
app.command()(fetch)
app.command()(build)
app.command("_build-item", hidden=True)(build_job)
app.command()(publish)


@app.command()
@verb
def remove(
    entries: Entries, dry_run: DryRun = False, site: SiteOption = None, fmt: FormatOption = Format.table
) -> Answer:
    """Publish a generation without these entries."""
    from envmgr.cli.text.generations import show_remove
    from envmgr.commands.generations import remove_entries

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return shown(remove_entries(ctx, entries, dry_run=dry_run), show_remove)


@app.command()
@verb
def history(site: SiteOption = None, fmt: FormatOption = Format.table) -> Answer:
    """Generations: time, user, changes.

    `*` marks the current one; rollbacks follow.
    """
    from envmgr.cli.text.generations import show_history
    from envmgr.commands.generations import read_history

    ctx = open_context(site, fmt, anywhere=True)
    return shown(read_history(ctx), show_history)


@app.command()
@verb
def rollback(
    generation: Annotated[
        int | None, typer.Argument(help="A generation's number; else the one before the current.")
    ] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """Make an earlier generation current."""
    from envmgr.cli.text.generations import show_rollback
    from envmgr.commands.generations import roll_back

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return shown(roll_back(ctx, generation, dry_run=dry_run), show_rollback)


@app.command()
@verb
def sign(
    accept_gap: Annotated[
        bool,
        typer.Option(
            "--accept-gap", help="Record, signed, that missing flips are lost for good. They are no longer reported."
        ),
    ] = False,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """Sign what is current, anew.

    A new flip for the current generation: where signing began after it was published, or its signature is not good any more.
    """
    from envmgr.cli.text.generations import show_sign
    from envmgr.commands.generations import sign_current

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return shown(sign_current(ctx, accept_gap=accept_gap, dry_run=dry_run), show_sign)


@app.command()
@verb
def diff(
    a: Annotated[int | None, typer.Argument(help="A generation; else the parent of B.")] = None,
    b: Annotated[int | None, typer.Argument(help="A generation; else the current one.")] = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """What differs between two generations.

    Entries, packages and versions; by default from the current generation's parent to the current one.
    """
    from envmgr.cli.text.generations import show_diff
    from envmgr.commands.generations import diff_generations

    ctx = open_context(site, fmt, anywhere=True)
    return shown(diff_generations(ctx, a, b), show_diff)


app.command()(test)
app.command()(job)


app.command()(verify)
app.command()(audit)
app.command()(adopt)
app.command()(export)


@app.command()
@verb
def gc(
    dry_run: DryRun = False,
    now: Annotated[bool, typer.Option("--now", help="Keep nothing for its age: as if keep_days were 0.")] = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """Remove old generations and unused installs.

    Old is what `policies` of the site says; unused is an install that no generation that stays names. What a process of this
    host or of the site's nodes, or a job of Slurm, uses or may use stays, and is told.
    """
    from envmgr.cli.text.gc import show_gc
    from envmgr.commands.gc import collect_garbage

    ctx = open_context(site, fmt)
    return shown(collect_garbage(ctx, dry_run=dry_run, now=now, settle=lambda: settle(ctx.site)), show_gc)


app.command("node-setup")(node_setup)
app.command("shell-init")(shell_init)


def main() -> None:
    """The entry point."""
    collector.set_threshold(_COLLECTED)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plugins costs 10 ms at every start
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
    narrowed(app, sys.argv[1:])()
