"""`envmgr stage`: images on nodes, mounted over the installs' own paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal, NoReturn

from envmgr.errors import InputError
from envmgr.images.node import NodeImage
from envmgr.images.private import run_privately
from envmgr.images.stage import Stager, folded
from envmgr.nodes.sets import resolve_nodes
from envmgr.probe.model import Way
from envmgr.publish.records import GenerationRecord
from envmgr.report import Result, SilentReporter
from envmgr.steps import Context, known_record, published_record, require_published
from envmgr.steps.image import installs_of, make_images
from envmgr.steps.opening import to_write
from envmgr.steps.staged import StageResult, own_images, put_away, stage_result, wanted_images
from envmgr.steps.verb_run import run_verb
from envmgr.verbs import DryRun, GenerationOption, SomeEntries, ViaOption, needs, option

_STATUS = "`envmgr stage --status` shows what is staged"


@needs("mount")
def stage(
    ctx: Context,
    entries: SomeEntries = None,
    nodes: Annotated[
        str | None, option("Node set, such as c[1-3]; by default staging.nodes, else all groups.", "SET")
    ] = None,
    via: ViaOption = None,
    status: Annotated[bool, option("Show the images that nodes have: state, bytes and age; change nothing.")] = False,
    remove: Annotated[
        bool, option("Unmount images on nodes, and remove the copies there; what is in use stays.")
    ] = False,
    image: Annotated[
        bool, option("Make the images, in the prefix, and ask no node; without entries, of images.entries.")
    ] = False,
    sync: Annotated[bool, option("Stage what site.yaml's `staging` says, and remove all else there.")] = False,
    private: Annotated[
        bool, option("Mount the image of ENTRY on this machine, only for the command behind `--`.")
    ] = False,
    everything: Annotated[
        bool, option("With --image take every published entry, with --remove every image.", None, "--all")
    ] = False,
    compression: Annotated[
        Literal["zstd", "lz4"] | None,
        option("Make images with zstd (smaller) or lz4 (read faster); by default the site's images.compression."),
    ] = None,
    generation: GenerationOption = None,
    dry_run: DryRun = False,
) -> Result:
    """Mount images of entries on nodes.

    The images are copied to the disks of the nodes, and those that are missing are made first. Paths do not change. An
    install in use is mounted once the processes have ended: run the same command again.
    """
    names = entries or ()
    _require_one_of(status=status, remove=remove, image=image, sync=sync, private=private)
    if everything and not (image or remove):
        raise InputError("stage-what", "--all is for --image and --remove: name entries, or --sync")
    if compression and not image:
        hint = "`envmgr stage --image ENTRY` makes it again"
        raise InputError("stage-what", "--compression is for --image", hint=hint)
    if image:
        if nodes or via:
            raise InputError("stage-what", "--image asks no node: leave out --nodes and --via")
        ctx = ctx if dry_run else to_write(ctx)
        return make_images(
            ctx, names, everything=everything, compression=compression, dry_run=dry_run, generation=generation
        )
    if status:
        return _status(ctx, nodes, via)
    if remove:
        return _remove(ctx, names, nodes, via, everything=everything, dry_run=dry_run)
    if private:
        if nodes or via or dry_run:
            message = "--private is for a command on this machine: no other option goes with it"
            raise InputError("stage-private", message)
        _run_private(ctx, names)
    return _stage(ctx, names, nodes, via, sync=sync, dry_run=dry_run, generation=generation)


def _require_one_of(**given: bool) -> None:
    if len(words := [f"--{name}" for name, value in given.items() if value]) > 1:
        raise InputError("stage-what", f"{' and '.join(words)} each say what to do", hint="give one of them")


def _stage(
    ctx: Context,
    names: Sequence[str],
    nodes: str | None,
    via: Way | None,
    *,
    sync: bool = False,
    dry_run: bool = False,
    generation: int | None = None,
) -> StageResult:
    """Mount the images of entries of the current generation, or of this one, on nodes: from the share, then from a copy
    on each node's disk.

    `nodes` None are those of the site's `staging.nodes`. With `sync`, what is staged there and not in the site's
    `staging.entries` goes. A dry run only looks. An image that is missing
    is made first.

    Raises:
        InputError: `not-published`, `nothing-named`, `bad-node-set`.
        EnvmgrError: `manifest-differs`, and what making an image raises.
    """
    current = published_record(ctx, generation)
    if sync:
        if names or generation is not None:
            message = "--sync stages what site.yaml says: name no entries and no generation with it"
            raise InputError("stage-sync", message)
        names = ctx.site.staging.chosen(current.entries)
    elif not names:
        raise InputError("nothing-named", "name at least one entry, or --sync", hint=_STATUS)
    require_published(names, current)
    where = _nodes(ctx, nodes)
    wanted, unready = wanted_images(ctx, current, names)
    if unready and not dry_run:
        _make_images(ctx, current, names)
        wanted, unready = wanted_images(replace(ctx, reporter=SilentReporter()), current, names)
        if unready:
            raise unready[0]
    for each in unready:
        ctx.reporter.say(f"{each.message}: it would be made")
    stager = Stager(ctx.site, ctx.runner, ctx.reporter, ctx.way(via))
    keys = {(each.path, each.sha256) for each in wanted}
    removed: list[str] = []
    stuck: list[NodeImage] = []
    if sync:
        stager.ask(where, "look")
        more = [image for image in own_images(ctx, stager) if (image.path, image.sha256) not in keys]
        if dry_run:
            removed = [f"{on}: {image.path}" for image, on in folded(more)]
        else:
            removed, stuck = put_away(stager, more)
    if dry_run:
        stager.ask(where, "look", wanted)
    elif wanted:
        stager.stage(where, wanted)
    found = stager.found
    images = [*(image for image in found.images.values() if (image.path, image.sha256) in keys), *stuck]
    return stage_result(ctx, current, "stage", found, images, where, dry_run=dry_run, removed=removed)


def _run_private(ctx: Context, names: Sequence[str]) -> NoReturn:
    """Run a command that sees the image of an entry: `names` is the entry, then the command. This process becomes it.

    Raises InputError `stage-private`; EnvmgrError as `stage_entries`, `run_privately`.
    """
    if len(names) < 2:
        hint = "`envmgr stage --private pydata/1.0 -- python train.py`"
        raise InputError("stage-private", "--private needs an entry and a command", hint=hint)
    current = published_record(ctx)
    require_published(names[:1], current)
    wanted, unready = wanted_images(ctx, current, names[:1])
    if unready:
        raise unready[0]
    run_privately(wanted, names[1:], ctx.runner)


def _status(ctx: Context, nodes: str | None, via: Way | None) -> StageResult:
    """Return what is staged on the nodes; None are those of `staging.nodes`, else all of the site."""
    where, stager = _look(ctx, nodes, via)
    return stage_result(ctx, known_record(ctx), "status", stager.found, own_images(ctx, stager), where)


def _remove(
    ctx: Context, names: Sequence[str], nodes: str | None, via: Way | None, *, everything: bool, dry_run: bool = False
) -> StageResult:
    """Unmount images on nodes and remove the copies. One whose files a process uses stays, and the process is named.

    Raises InputError `nothing-named`, `not-published`, `bad-node-set`.
    """
    if not names and not everything:
        raise InputError("nothing-named", "name at least one entry, or --all", hint=_STATUS)
    current = known_record(ctx)
    where, stager = _look(ctx, nodes, via)
    chosen = own_images(ctx, stager)
    if names:
        published = published_record(ctx)
        require_published(names, published)
        stay = installs_of(published, [n for n in ctx.site.staging.chosen(published.entries) if n not in names])
        for path in stay.keys() & installs_of(published, names).keys():
            ctx.reporter.say(f"{path} stays: {', '.join(stay[path])} of staging.entries need it, too")
        paths = {str(ctx.prefix.install_at(p).path) for p in installs_of(published, names) if p not in stay}
        chosen = [image for image in chosen if image.path in paths]
    removed = [f"{on}: {image.path}" for image, on in folded(chosen)]
    if not dry_run:
        removed, chosen = put_away(stager, chosen)
    return stage_result(ctx, current, "remove", stager.found, chosen, where, dry_run=dry_run, removed=removed)


def _look(ctx: Context, nodes: str | None, via: Way | None) -> tuple[Sequence[str], Stager]:
    """Return the nodes, and what a look at them has found."""
    where, stager = _nodes(ctx, nodes), Stager(ctx.site, ctx.runner, ctx.reporter, ctx.way(via))
    stager.ask(where, "look")
    return where, stager


def _nodes(ctx: Context, nodes: str | None) -> Sequence[str]:
    return resolve_nodes(nodes or ctx.site.staging.nodes, ctx.site, ctx.runner)


def _make_images(ctx: Context, current: GenerationRecord, names: Sequence[str]) -> None:
    """Make what is missing in a process of its own, which becomes the build user. Raise its error."""
    done = run_verb(ctx, "stage", "--image", "--generation", str(current.number), *names)
    if "images" not in done.data:
        raise done.failure()
