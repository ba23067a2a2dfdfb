"""The verbs about images: made here, staged on nodes."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from envmgr.cli import options
from envmgr.cli.run import open_context, verb
from envmgr.errors import InputError
from envmgr.report import Result

_Nodes = Annotated[
    str | None,
    typer.Option("--nodes", help="Node set, such as c[1-3]; by default staging.nodes, else all groups.", metavar="SET"),
]


@verb
def image(
    entries: options.SomeEntries = None,
    everything: Annotated[bool, typer.Option("--all", help="Take every published entry.")] = False,
    compression: Annotated[
        Literal["zstd", "lz4"] | None,
        typer.Option(
            help="Compress with zstd (smaller) or lz4 (read faster); by default the site's images.compression."
        ),
    ] = None,
    generation: options.GenerationOption = None,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Make an image of each install of published entries.

    Without entries, of those in the site's images.entries. `envmgr stage` brings images to nodes.
    """
    from envmgr.steps.image import make_images

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    return make_images(
        ctx, entries or (), everything=everything, compression=compression, dry_run=dry_run, generation=generation
    )


@verb
def stage(
    entries: options.SomeEntries = None,
    nodes: _Nodes = None,
    via: options.ViaOption = None,
    sync: Annotated[
        bool, typer.Option("--sync", help="Stage what site.yaml's `staging` says, and unstage all else there.")
    ] = False,
    private: Annotated[
        bool,
        typer.Option("--private", help="Mount the image of ENTRY on this machine, only for the command behind `--`."),
    ] = False,
    generation: options.GenerationOption = None,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Mount the images of entries on nodes, and copy them there.

    Paths do not change. An install in use is mounted once the processes have ended: run the same command again.
    """
    from envmgr.steps.stage import run_private, stage_entries

    ctx = open_context(site, fmt)
    if private:
        if nodes or via or sync or dry_run:
            raise InputError(
                "stage-private", "--private is for a command on this machine: no other option goes with it"
            )
        run_private(ctx, entries or ())
    return stage_entries(ctx, entries or (), nodes=nodes, via=via, sync=sync, dry_run=dry_run, generation=generation)


@verb
def staged(
    nodes: _Nodes = None,
    via: options.ViaOption = None,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Show the images that nodes have: state, bytes and age."""
    from envmgr.steps.stage import show_staged

    return show_staged(open_context(site, fmt, anywhere=True), nodes=nodes, via=via)


@verb
def unstage(
    entries: options.SomeEntries = None,
    everything: Annotated[bool, typer.Option("--all", help="Take every image that the nodes have.")] = False,
    nodes: _Nodes = None,
    via: options.ViaOption = None,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Unmount images on nodes, and remove the copies there.

    An image in use stays, and the processes are named.
    """
    from envmgr.steps.stage import unstage_entries

    ctx = open_context(site, fmt)
    return unstage_entries(ctx, entries or (), nodes=nodes, everything=everything, via=via, dry_run=dry_run)
