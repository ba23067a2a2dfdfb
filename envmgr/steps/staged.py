"""Images on nodes: those that entries need there, those that nodes have, and what a look at nodes says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from envmgr.errors import EnvmgrError
from envmgr.images.node import NodeImage, WantedImage, wanted_image
from envmgr.images.stage import StagedImages, Stager, folded
from envmgr.nodes.sets import fold
from envmgr.publish.records import GenerationRecord
from envmgr.publish.verify import named_manifests
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context
from envmgr.steps.image import installs_of, trees_not_ours
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


def wanted_images(
    ctx: Context, current: GenerationRecord, names: Sequence[str]
) -> tuple[list[WantedImage], list[EnvmgrError]]:
    """Return the images of entries, and why there is none, or none of the install that is there."""
    found, unready = list[WantedImage](), list[EnvmgrError]()
    named = named_manifests(ctx.prefix)
    not_ours = trees_not_ours(current)
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
                why = "it is closed to other users, and a copy is open to all"
                ctx.reporter.say(f"{path} is read from the share: {why}")
                continue
            found.append(WantedImage(str(install.path), str(install.path / own.path), own.sha256, own.size))
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


def own_images(ctx: Context, stager: Stager) -> list[NodeImage]:
    """Return the images of this site's installs: a node may have those of another site."""
    return [image for image in stager.found.images.values() if image.path.startswith(f"{ctx.site.prefix}/store/")]


def put_away(stager: Stager, chosen: Sequence[NodeImage]) -> tuple[list[str], list[NodeImage]]:
    """Unmount and remove images; return what is gone, a line each, and what stayed, with the reason."""
    # A node is asked for what it has said itself, and nothing that another one says.
    for wanted in dict.fromkeys(image.wanted for image in chosen):
        stager.ask([image.node for image in chosen if image.wanted == wanted], "away", [wanted])
    after = [stager.found.images.pop(image.key) for image in chosen]
    gone = [image for image in after if not image.why and image.node not in stager.found.faults]
    return [f"{on}: {image.path}" for image, on in folded(gone)], [image for image in after if image.why]


def stage_result(
    ctx: Context,
    current: GenerationRecord | None,
    action: Literal["stage", "status", "remove"],
    found: StagedImages,
    images: Sequence[NodeImage],
    nodes: Sequence[str],
    *,
    dry_run: bool = False,
    removed: Sequence[str] = (),
) -> StageResult:
    of = {} if current is None else installs_of(current, sorted(current.entries))
    entries = {str(ctx.prefix.install_at(path).path): names for path, names in of.items()}
    rows = []
    for each, on in folded(images):
        told = (each.copied, each.size, each.age, each.source, each.why)
        rows.append(StagedImage(on, each.path, entries.get(each.path, ()), _state(each), *told))
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
