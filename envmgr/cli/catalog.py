"""The verbs for the site and its catalog: init, site check, list, show, new, copy, import, catalog check."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from envmgr.cli import VerbAnswer, answer_with
from envmgr.cli.options import DryRun, Format, FormatOption, SiteOption, SomeEntries
from envmgr.cli.run import open_context, verb


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
) -> VerbAnswer:
    """Make a site and an empty catalog."""
    from envmgr.catalog.site import embedded_prefix
    from envmgr.cli.text.catalog import show_init
    from envmgr.commands.init import init_site

    chosen = prefix or embedded_prefix(os.environ)
    return answer_with(init_site(folder, prefix=chosen, name=name, dry_run=dry_run), show_init)


@verb
def site_check(site: SiteOption = None, fmt: FormatOption = Format.table) -> VerbAnswer:
    """Show what is wrong with the site on this machine."""
    from envmgr.cli.text.catalog import show_site_check
    from envmgr.commands.site import check_site

    ctx = open_context(site, fmt, anywhere=True)
    return answer_with(check_site(ctx), show_site_check)


@verb
def list_(site: SiteOption = None, fmt: FormatOption = Format.table) -> VerbAnswer:
    """Show all entries as a tree, each with its state."""
    from envmgr.cli.text.catalog import show_list
    from envmgr.commands.list import list_entries

    ctx = open_context(site, fmt, anywhere=True)
    return answer_with(list_entries(ctx), show_list)


@verb
def show(
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="One entry, as name/version.")],
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> VerbAnswer:
    """Show one entry: recipe, lock, install, module."""
    from envmgr.cli.text.catalog import show_one_entry
    from envmgr.commands.list import show_entry

    ctx = open_context(site, fmt, anywhere=True)
    return answer_with(show_entry(ctx, entry), show_one_entry)


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
) -> VerbAnswer:
    """Write a recipe for packages of the index, or of conda.

    Packages of the index stand on the newest Python of the catalog that is built; without any, on the system's.
    """
    from envmgr.cli.text.catalog import show_new
    from envmgr.commands.new import new_entry

    ctx = open_context(site, fmt, anywhere=True)
    return answer_with(new_entry(ctx, entry, packages or (), channels=conda or (), dry_run=dry_run), show_new)


@verb
def copy(
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="A shipped entry, as name/version.")],
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> VerbAnswer:
    """Copy a shipped recipe into your own catalog."""
    from envmgr.cli.text.catalog import show_copy
    from envmgr.commands.catalog import copy_entry

    ctx = open_context(site, fmt, anywhere=True)
    return answer_with(copy_entry(ctx, entry, dry_run=dry_run), show_copy)


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
) -> VerbAnswer:
    """Make a recipe of another tool's file.

    If the file is a lock, the entry gets exactly its packages. What cannot be carried over is listed line by line.
    """
    from envmgr.cli.text.catalog import show_import
    from envmgr.commands.exchange import import_file

    ctx = open_context(site, fmt, anywhere=True)
    result = import_file(ctx, path, name=name, entry=entry, python=python, tree=tree, dry_run=dry_run)
    return answer_with(result, show_import)


@verb
def catalog_check(entries: SomeEntries = None, site: SiteOption = None, fmt: FormatOption = Format.table) -> VerbAnswer:
    """Check recipes and locks, and show where faults are."""
    from envmgr.cli.text.catalog import show_check
    from envmgr.commands.catalog import check_catalog

    ctx = open_context(site, fmt, anywhere=True)
    return answer_with(check_catalog(ctx, entries or ()), show_check)
