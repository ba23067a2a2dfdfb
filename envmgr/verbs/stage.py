"""`envmgr stage`: images on nodes, mounted over the installs' own paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, NoReturn

from envmgr.errors import EnvmgrError, InputError
from envmgr.images.node import NodeImage, Wanted, wanted_image
from envmgr.images.private import run_privately
from envmgr.images.stage import Staged, Stager, folded
from envmgr.nodes.sets import fold, resolve_nodes
from envmgr.probe.model import Way
from envmgr.publish.records import GenerationRecord, read_record
from envmgr.publish.verify import named_manifests
from envmgr.report import Lines, Result, SilentReporter, Table
from envmgr.steps import Context, published_record, require_published
from envmgr.steps.image import installs_of, make_images
from envmgr.steps.opening import to_write
from envmgr.steps.verb_run import run_verb
from envmgr.store.image import OTHERS, own_image, read_image
from envmgr.store.manifest import read_manifest
from envmgr.verbs import DryRun, GenerationOption, SomeEntries, ViaOption, needs, option
from envmgr.wording import duration, size_text

State = Literal["local", "share", "waiting", "other", "none", "failed"]


@dataclass(frozen=True, slots=True)
class StagedImage:
    """One image on these nodes (folded). `entries` of the current generation stand on its install, whose path is
    `path`.

    `state`: `local` is mounted from the node's disk, `share` from the share, `waiting` for a process to end, `other` is
    something else mounted there, `none` is not mounted, `failed` for the reason `why`. `copied` of `size` bytes are on
    the node's disk; `age` is seconds since it was staged. Both are those of the first node.
    """

    nodes: str
    path: str
    entries: tuple[str, ...]
    state: State
    copied: int
    size: int
    age: int
    source: str
    why: str


@dataclass(frozen=True, slots=True)
class StageFault:
    """Nodes (folded) of which nothing is known, and why."""

    nodes: str
    why: str


_WORDS = {
    "local": "from its own disk",
    "share": "from the share",
    "waiting": "not mounted",
    "other": "something else",
    "none": "not mounted",
    "failed": "failed",
}


@dataclass(frozen=True, slots=True)
class StageResult(Result):
    """The result of `stage`, also with --status and --remove. `way` says how copies were sent, where more than one node copied."""

    schema: ClassVar[str] = "envmgr.stage/1"
    action: Literal["stage", "status", "remove"]
    dry_run: bool
    images: tuple[StagedImage, ...]
    faults: tuple[StageFault, ...]
    nodes: str
    removed: tuple[str, ...] = ()
    way: str = ""

    @property
    def exit_code(self) -> int:
        if self.faults or any(image.state == "failed" for image in self.images):
            return 3
        left = not self.dry_run and self.action != "status"
        return 1 if left and any(image.state in ("waiting", "other") for image in self.images) else 0

    def lines(self) -> Lines:
        rows = []
        for image in self.images:
            part = "" if image.copied == image.size else f"{size_text(image.copied)} of "
            copied = f"{part}{size_text(image.size)}"
            what = ", ".join(image.entries) or image.path
            age = duration(image.age) if image.copied else ""
            rows.append([image.nodes, what, _WORDS[image.state], copied, age, image.why])
        yield Table(rows)
        for line in self.removed:
            yield f"{'would be removed:' if self.dry_run else 'removed'} {line}"
        for fault in self.faults:
            yield f"error {fault.nodes}: {fault.why}"
        if self.way:
            yield f"copied {self.way}"
        if not rows and not self.faults and not self.removed:
            yield f"nothing is staged on {self.nodes}"


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
        raise InputError(
            "stage-what", "--compression is for --image", hint="`envmgr stage --image ENTRY` makes it again"
        )
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
            raise InputError(
                "stage-private", "--private is for a command on this machine: no other option goes with it"
            )
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
    current = published_record(ctx) if generation is None else read_record(ctx.prefix, generation)
    if sync:
        if names or generation is not None:
            raise InputError(
                "stage-sync", "--sync stages what site.yaml says: name no entries and no generation with it"
            )
        names = ctx.site.staging.chosen(current.entries)
    elif not names:
        raise InputError(
            "nothing-named", "name at least one entry, or --sync", hint="`envmgr stage --status` shows what is staged"
        )
    require_published(names, current)
    where = _nodes(ctx, nodes)
    wanted, unready = _wanted(ctx, current, names)
    if unready and not dry_run:
        _make_images(ctx, current, names)
        wanted, unready = _wanted(replace(ctx, reporter=SilentReporter()), current, names)
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
        more = [image for image in _own(ctx, stager) if (image.path, image.sha256) not in keys]
        if dry_run:
            removed = [f"{on}: {image.path}" for image, on in folded(more)]
        else:
            removed, stuck = _put_away(stager, more)
    if dry_run:
        stager.ask(where, "look", wanted)
    elif wanted:
        stager.stage(where, wanted)
    found = stager.found
    images = [*(image for image in found.images.values() if (image.path, image.sha256) in keys), *stuck]
    return _result(ctx, current, "stage", found, images, where, dry_run=dry_run, removed=removed)


def _run_private(ctx: Context, names: Sequence[str]) -> NoReturn:
    """Run a command that sees the image of an entry: `names` is the entry, then the command. This process becomes it.

    Raises InputError `stage-private`; EnvmgrError as `stage_entries`, `run_privately`.
    """
    if len(names) < 2:
        raise InputError(
            "stage-private",
            "--private needs an entry and a command",
            hint="`envmgr stage --private pydata/1.0 -- python train.py`",
        )
    current = published_record(ctx)
    require_published(names[:1], current)
    wanted, unready = _wanted(ctx, current, names[:1])
    if unready:
        raise unready[0]
    run_privately(wanted, names[1:], ctx.runner)


def _put_away(stager: Stager, chosen: Sequence[NodeImage]) -> tuple[list[str], list[NodeImage]]:
    """Unmount and remove images; return what is gone, a line each, and what stayed, with the reason."""
    # A node is asked for what it has said itself, and nothing that another one says.
    for wanted in dict.fromkeys(image.wanted for image in chosen):
        stager.ask([image.node for image in chosen if image.wanted == wanted], "away", [wanted])
    after = [stager.found.images.pop(image.key) for image in chosen]
    gone = [image for image in after if not image.why and image.node not in stager.found.faults]
    return [f"{on}: {image.path}" for image, on in folded(gone)], [image for image in after if image.why]


def _status(ctx: Context, nodes: str | None, via: Way | None) -> StageResult:
    """Return what is staged on the nodes; None are those of `staging.nodes`, else all of the site."""
    where = _nodes(ctx, nodes)
    stager = Stager(ctx.site, ctx.runner, ctx.reporter, ctx.way(via))
    stager.ask(where, "look")
    return _result(ctx, _current(ctx), "status", stager.found, _own(ctx, stager), where)


def _own(ctx: Context, stager: Stager) -> list[NodeImage]:
    """Return the images of this site's installs: a node may have those of another site."""
    return [image for image in stager.found.images.values() if image.path.startswith(f"{ctx.site.prefix}/store/")]


def _remove(
    ctx: Context, names: Sequence[str], nodes: str | None, via: Way | None, *, everything: bool, dry_run: bool = False
) -> StageResult:
    """Unmount images on nodes and remove the copies. One whose files a process uses stays, and the process is named.

    Raises InputError `nothing-named`, `not-published`, `bad-node-set`.
    """
    if not names and not everything:
        raise InputError(
            "nothing-named", "name at least one entry, or --all", hint="`envmgr stage --status` shows what is staged"
        )
    where = _nodes(ctx, nodes)
    current = _current(ctx)
    stager = Stager(ctx.site, ctx.runner, ctx.reporter, ctx.way(via))
    stager.ask(where, "look")
    chosen = _own(ctx, stager)
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
        removed, chosen = _put_away(stager, chosen)
    return _result(ctx, current, "remove", stager.found, chosen, where, dry_run=dry_run, removed=removed)


def _current(ctx: Context) -> GenerationRecord | None:
    try:
        return published_record(ctx)
    except EnvmgrError:
        return None


def _nodes(ctx: Context, nodes: str | None) -> Sequence[str]:
    return resolve_nodes(nodes or ctx.site.staging.nodes, ctx.site, ctx.runner)


def _make_images(ctx: Context, current: GenerationRecord, names: Sequence[str]) -> None:
    """Make what is missing in a process of its own, which becomes the build user. Raise its error."""
    done = run_verb(ctx, "stage", "--image", "--generation", str(current.number), *names)
    if "images" not in done.data:
        raise done.failure()


def _wanted(ctx: Context, current: GenerationRecord, names: Sequence[str]) -> tuple[list[Wanted], list[EnvmgrError]]:
    """Return the images of entries, and why there is none, or none of the install that is there."""
    found, unready = list[Wanted](), list[EnvmgrError]()
    named = named_manifests(ctx.prefix)
    not_ours = {row.path: row.not_ours for row in current.entries.values() if row.not_ours}
    for path, entries in installs_of(current, names).items():
        if tree := not_ours.get(path):
            ctx.reporter.say(f"{', '.join(entries)}: not staged: its software lies in {tree}, which is not ours")
            continue
        install = ctx.prefix.install_at(path)
        # What it says of an image goes to nodes, as root.
        mend = f"`envmgr build --again {entries[0]}` makes it again"
        manifest = read_manifest(install.manifest, named=named.get(path), hint=mend)
        if own := own_image(manifest):
            if manifest.mask & OTHERS:
                ctx.reporter.say(
                    f"{path} is read from the share: it is closed to other users, and a copy is open to all"
                )
                continue
            found.append(Wanted(str(install.path), str(install.path / own.path), own.sha256, own.size))
            continue
        record, hint = read_image(install), f"`envmgr stage --image {entries[0]}` makes it"
        if record is None or not install.image.is_file():
            unready.append(EnvmgrError("image-missing", f"{entries[0]} has no image of {path}", hint=hint))
        elif record.tree != manifest.tree or install.image.stat().st_size != record.size:
            text = f"the image of {path} is not of the install that is there"
            unready.append(EnvmgrError("image-stale", text, hint=hint))
        else:
            found.append(wanted_image(install, record))
    return found, unready


def _result(
    ctx: Context,
    current: GenerationRecord | None,
    action: Literal["stage", "status", "remove"],
    found: Staged,
    images: Sequence[NodeImage],
    nodes: Sequence[str],
    *,
    dry_run: bool = False,
    removed: Sequence[str] = (),
) -> StageResult:
    of = {} if current is None else installs_of(current, sorted(current.entries))
    entries = {str(ctx.prefix.install_at(path).path): names for path, names in of.items()}
    rows = [
        StagedImage(
            on,
            image.path,
            entries.get(image.path, ()),
            _state(image),
            image.copied,
            image.size,
            image.age,
            image.source,
            image.why,
        )
        for image, on in folded(images)
    ]
    reasons = dict.fromkeys(found.faults.values())
    faults = [StageFault(fold([n for n, why in found.faults.items() if why == each]), each) for each in reasons]
    rows.sort(key=lambda row: (row.path, row.nodes))
    return StageResult(action, dry_run, tuple(rows), tuple(faults), fold(nodes), tuple(removed), found.way)


def _state(image: NodeImage) -> State:
    if image.waits:
        return "waiting"
    if image.mounted == "other":
        return "other"
    return "failed" if image.why else image.mounted
