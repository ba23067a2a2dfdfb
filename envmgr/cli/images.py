"""The verbs about images: made here, staged on nodes."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from envmgr.cli import VerbAnswer, answer_with, options
from envmgr.cli.run import open_context, verb
from envmgr.errors import InputError

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
) -> VerbAnswer:
    """Make an image of each install of published entries.

    Without entries, of those in the site's images.entries. `envmgr stage` brings images to nodes.
    """
    from envmgr.cli.text.images import show_image
    from envmgr.commands.image import make_images

    ctx = open_context(site, fmt, writes_prefix=not dry_run)
    result = make_images(
        ctx, entries or (), everything=everything, compression=compression, dry_run=dry_run, generation=generation
    )
    return answer_with(result, show_image)


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
) -> VerbAnswer:
    """Mount the images of entries on nodes, and copy them there.

    Paths do not change. An install in use is mounted once the processes have ended: run the same command again.
    """
    from envmgr.cli.text.images import show_stage
    from envmgr.commands.stage import run_private, stage_entries

    ctx = open_context(site, fmt)
    if private:
        if nodes or via or sync or dry_run:
            raise InputError(
                "stage-private", "--private is for a command on this machine: no other option goes with it"
            )
        run_private(ctx, entries or ())
    result = stage_entries(ctx, entries or (), nodes=nodes, via=via, sync=sync, dry_run=dry_run, generation=generation)
    return answer_with(result, show_stage)


@verb
def staged(
    nodes: _Nodes = None,
    via: options.ViaOption = None,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> VerbAnswer:
    """Show the images that nodes have: state, bytes and age."""
    from envmgr.cli.text.images import show_stage
    from envmgr.commands.stage import show_staged

    return answer_with(show_staged(open_context(site, fmt, anywhere=True), nodes=nodes, via=via), show_stage)


@verb
def unstage(
    entries: options.SomeEntries = None,
    everything: Annotated[bool, typer.Option("--all", help="Take every image that the nodes have.")] = False,
    nodes: _Nodes = None,
    via: options.ViaOption = None,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> VerbAnswer:
    """Unmount images on nodes, and remove the copies there.

    An image in use stays, and the processes are named.
    """
    from envmgr.cli.text.images import show_stage
    from envmgr.commands.stage import unstage_entries

    ctx = open_context(site, fmt)
    result = unstage_entries(ctx, entries or (), nodes=nodes, everything=everything, via=via, dry_run=dry_run)
    return answer_with(result, show_stage)
