"""The verbs for the site and its catalog: init, site check, list, show, new, copy, import, catalog check."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from envmgr.cli.options import DryRun, Format, FormatOption, SiteOption, SomeEntries
from envmgr.cli.run import open_context, verb
from envmgr.report import Result


@verb
def init(
    folder: Annotated[Path, typer.Argument(help="Folder for site.yaml and the catalog.")] = Path(),
    prefix: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Shared folder for installs and modules, with the same path on every node."
        ),
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the cluster.")] = "cluster",
    dry_run: DryRun = False,
    fmt: FormatOption = Format.table,  # noqa: ARG001 - `verb` looks at it
) -> Result:
    """Make a site and an empty catalog."""
    from envmgr.catalog.site import embedded_prefix
    from envmgr.steps.init import init_site

    chosen = prefix or embedded_prefix(os.environ)
    return init_site(folder, prefix=chosen, name=name, dry_run=dry_run)


@verb
def site_check(site: SiteOption = None, fmt: FormatOption = Format.table) -> Result:
    """Show what is wrong with the site on this machine."""
    from envmgr.steps.site import check_site

    ctx = open_context(site, fmt, anywhere=True)
    return check_site(ctx)


@verb
def list_(site: SiteOption = None, fmt: FormatOption = Format.table) -> Result:
    """Show all entries as a tree, each with its state."""
    from envmgr.steps.list import list_entries

    ctx = open_context(site, fmt, anywhere=True)
    return list_entries(ctx)


@verb
def show(
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="One entry, as name/version.")],
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Result:
    """Show one entry: recipe, lock, install, module."""
    from envmgr.steps.list import show_entry

    ctx = open_context(site, fmt, anywhere=True)
    return show_entry(ctx, entry)


@verb
def new(
    entry: Annotated[str, typer.Argument(metavar="NAME/VERSION", help="The new entry.")],
    packages: Annotated[
        list[str] | None,
        typer.Argument(metavar="PACKAGE", help="What to ask for, as 'numpy<2'; by default NAME in its VERSION."),
    ] = None,
    conda: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANNEL", help="Take packages of this conda channel; of several, the first has priority."
        ),
    ] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Result:
    """Write a recipe for packages of the index, or of conda.

    Packages of the index stand on the newest Python of the catalog that is built; without any, on the system's.
    """
    from envmgr.steps.new import new_entry

    ctx = open_context(site, fmt, anywhere=True)
    return new_entry(ctx, entry, packages or (), channels=conda or (), dry_run=dry_run)


@verb
def copy(
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="A shipped entry, as name/version.")],
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Result:
    """Copy a shipped recipe into your own catalog."""
    from envmgr.steps.catalog import copy_entry

    ctx = open_context(site, fmt, anywhere=True)
    return copy_entry(ctx, entry, dry_run=dry_run)


@verb
def import_(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="File of another tool, such as pixi.lock, or a folder of Spack.")
    ],
    name: Annotated[
        str | None,
        typer.Option("--from", metavar="FORMAT", help="Format of the file; by default by its name and text."),
    ] = None,
    entry: Annotated[
        str | None,
        typer.Option("--as", metavar="ENTRY", help="The new entry, as name/version; by default as in the file."),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            metavar="ENTRY", help="Python below wheels, such as python/3.11; by default the newest that fits."
        ),
    ] = None,
    tree: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder in which Spack installed what its spack.lock names.")
    ] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Result:
    """Make a recipe of another tool's file.

    If the file is a lock, the entry gets exactly its packages. What cannot be carried over is listed line by line.
    """
    from envmgr.steps.exchange import import_file

    ctx = open_context(site, fmt, anywhere=True)
    return import_file(ctx, path, name=name, entry=entry, python=python, tree=tree, dry_run=dry_run)


@verb
def catalog_check(entries: SomeEntries = None, site: SiteOption = None, fmt: FormatOption = Format.table) -> Result:
    """Check recipes and locks, and show where faults are."""
    from envmgr.steps.catalog import check_catalog

    ctx = open_context(site, fmt, anywhere=True)
    return check_catalog(ctx, entries or ())
