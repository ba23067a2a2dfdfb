"""`envmgr stage`, `staged`, `unstage`: images on nodes, mounted over the installs' own paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NoReturn

from envmgr.errors import EnvmgrError, InputError
from envmgr.images.node import NodeImage, Wanted, wanted_image
from envmgr.images.private import run_privately
from envmgr.images.stage import Staged, Stager, folded
from envmgr.nodes.sets import fold, resolve_nodes
from envmgr.probe.model import Way
from envmgr.publish.records import GenerationRecord, read_record
from envmgr.publish.verify import named_manifests
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context, published_record, require_published
from envmgr.steps.image import installs_of
from envmgr.store.image import OTHERS, own_image, read_image
from envmgr.store.manifest import read_manifest
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
    """The result of `stage`, `staged` and `unstage`. `way` says how copies were sent, where more than one node copied."""

    schema: ClassVar[str] = "envmgr.staged/1"
    action: Literal["stage", "staged", "unstage"]
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
        left = not self.dry_run and self.action != "staged"
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


def stage_entries(
    ctx: Context,
    names: Sequence[str],
    *,
    nodes: str | None,
    via: Way | None = None,
    sync: bool = False,
    dry_run: bool = False,
    generation: int | None = None,
) -> StageResult:
    """Mount the images of entries of the current generation, or of this one, on nodes: from the share, then from a copy
    on each node's disk.

    `nodes` None are those of the site's `staging.nodes`. With `sync`, what is staged there and not in the site's
    `staging.entries` goes. A dry run only looks.

    Raises:
        InputError: `not-published`, `nothing-named`, `bad-node-set`.
        EnvmgrError: `image-missing`, `image-stale`, `manifest-differs`.
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
            "nothing-named", "name at least one entry, or --sync", hint="`envmgr staged` shows what is staged"
        )
    require_published(names, current)
    wanted = _wanted(ctx, current, names)
    where = _nodes(ctx, nodes)
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


def run_private(ctx: Context, names: Sequence[str]) -> NoReturn:
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
    run_privately(_wanted(ctx, current, names[:1]), names[1:], ctx.runner)


def _put_away(stager: Stager, chosen: Sequence[NodeImage]) -> tuple[list[str], list[NodeImage]]:
    """Unmount and remove images; return what is gone, a line each, and what stayed, with the reason."""
    # A node is asked for what it has said itself, and nothing that another one says.
    for wanted in dict.fromkeys(image.wanted for image in chosen):
        stager.ask([image.node for image in chosen if image.wanted == wanted], "away", [wanted])
    after = [stager.found.images.pop(image.key) for image in chosen]
    gone = [image for image in after if not image.why and image.node not in stager.found.faults]
    return [f"{on}: {image.path}" for image, on in folded(gone)], [image for image in after if image.why]


def show_staged(ctx: Context, *, nodes: str | None, via: Way | None = None) -> StageResult:
    """Return what is staged on the nodes; None are those of `staging.nodes`, else all of the site."""
    where = _nodes(ctx, nodes)
    stager = Stager(ctx.site, ctx.runner, ctx.reporter, ctx.way(via))
    stager.ask(where, "look")
    return _result(ctx, _current(ctx), "staged", stager.found, _own(ctx, stager), where)


def _own(ctx: Context, stager: Stager) -> list[NodeImage]:
    """Return the images of this site's installs: a node may have those of another site."""
    return [image for image in stager.found.images.values() if image.path.startswith(f"{ctx.site.prefix}/store/")]


def unstage_entries(
    ctx: Context,
    names: Sequence[str],
    *,
    nodes: str | None,
    everything: bool = False,
    via: Way | None = None,
    dry_run: bool = False,
) -> StageResult:
    """Unmount images on nodes and remove the copies. One whose files a process uses stays, and the process is named.

    Raises InputError `nothing-named`, `not-published`, `bad-node-set`.
    """
    if not names and not everything:
        raise InputError(
            "nothing-named", "name at least one entry, or --all", hint="`envmgr staged` shows what is staged"
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
    return _result(ctx, current, "unstage", stager.found, chosen, where, dry_run=dry_run, removed=removed)


def _current(ctx: Context) -> GenerationRecord | None:
    try:
        return published_record(ctx)
    except EnvmgrError:
        return None


def _nodes(ctx: Context, nodes: str | None) -> Sequence[str]:
    return resolve_nodes(nodes or ctx.site.staging.nodes, ctx.site, ctx.runner)


def _wanted(ctx: Context, current: GenerationRecord, names: Sequence[str]) -> list[Wanted]:
    found = []
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
        record = read_image(install)
        hint = f"`envmgr image {entries[0]}` makes it"
        if record is None or not install.image.is_file():
            raise EnvmgrError("image-missing", f"{entries[0]} has no image of {path}", hint=hint)
        if record.tree != manifest.tree or install.image.stat().st_size != record.size:
            raise EnvmgrError("image-stale", f"the image of {path} is not of the install that is there", hint=hint)
        found.append(wanted_image(install, record))
    return found


def _result(
    ctx: Context,
    current: GenerationRecord | None,
    action: Literal["stage", "staged", "unstage"],
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
