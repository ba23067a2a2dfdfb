"""Make images of published entries, which nodes mount over the installs' own paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from envmgr.builds.prepare import can_write, clean_leftovers
from envmgr.errors import EnvmgrError, InputError
from envmgr.images import ImageRow
from envmgr.images.make import make_image
from envmgr.publish.records import GenerationRecord
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context, logged, published_record, require_published
from envmgr.store.image import own_image
from envmgr.store.jobtable import holding
from envmgr.store.manifest import read_manifest
from envmgr.system.squashfs import Compression, Maker, find_maker
from envmgr.wording import size_text

_STATUS = {"made": "made", "there": "was there", "would-make": "would be made"}


@dataclass(frozen=True, slots=True)
class ImageResult(Result):
    """The result of `stage --image`; `left_out` are installs that get no image, and why."""

    schema: ClassVar[str] = "envmgr.stage-image/1"
    generation: int
    images: tuple[ImageRow, ...]
    left_out: tuple[str, ...]
    dry_run: bool
    log: str | None

    def lines(self) -> Lines:
        rows = []
        for row in self.images:
            size = f"{size_text(row.size)} of {size_text(row.of)}" if row.size else size_text(row.of)
            share = f"{row.size / row.of:.2f}" if row.size and row.of else ""
            rows.append([row.image, _STATUS[row.status], row.compression, size, share, row.why])
        yield Table(rows)
        for line in self.left_out:
            yield f"no image of {line}"
        if self.log is not None:
            yield f"log: {self.log}"


def make_images(
    ctx: Context,
    names: Sequence[str],
    *,
    everything: bool = False,
    compression: Compression | None = None,
    dry_run: bool = False,
    generation: int | None = None,
) -> ImageResult:
    """Make an image of each install of the named entries of the current generation, or of this one; without names, of
    the site's `images.entries`.

    `compression` None is that of an image that is there, else the site's. Images that are there and right stay.

    Raises:
        InputError: `not-published`, `nothing-named`.
        EnvmgrError: `mksquashfs-missing`; of the first image that could not be made, after all were tried.
    """
    current = published_record(ctx, generation)
    chosen = sorted(current.entries) if everything else names or ctx.site.images.chosen(current.entries)
    require_published(chosen, current)
    if not chosen:
        context = "`images: {entries: […]}` in site.yaml names none that is published"
        hint = "`envmgr list` shows what there is"
        raise InputError("nothing-named", "name at least one entry, or --all", context=context, hint=hint)
    maker = find_maker(ctx.runner)
    of = installs_of(current, chosen)
    not_ours = {path: tree for path, tree in trees_not_ours(current).items() if path in of}
    left_out = tuple(f"{path}: its software lies in {tree}, which is not ours" for path, tree in not_ours.items())
    of = {path: entries for path, entries in of.items() if path not in not_ours}
    own = [path for path in of if own_image(read_manifest(ctx.prefix.install_at(path).manifest))]
    left_out += tuple(f"{path}: it is an image itself, which `envmgr stage` brings to nodes" for path in own)
    of = {path: entries for path, entries in of.items() if path not in own}
    if dry_run:
        rows = make_each(ctx, of, maker, compression, dry_run=True)
        return ImageResult(current.number, rows, left_out, dry_run, None)
    can_write(ctx.site)
    with logged(ctx, "image") as (inner, log), holding(ctx.prefix, of.keys(), ctx.runner, inner.reporter):
        clean_leftovers(ctx.prefix, inner.reporter)
        rows = make_each(inner, of, maker, compression)
    return ImageResult(current.number, rows, left_out, dry_run, str(log))


def make_each(
    ctx: Context,
    of: Mapping[str, tuple[str, ...]],
    maker: Maker,
    compression: Compression | None = None,
    *,
    dry_run: bool = False,
) -> tuple[ImageRow, ...]:
    """Make the images of installs, each with the entries that stand on it.

    Raises the EnvmgrError of the first image that could not be made, after all were tried.
    """
    rows = []
    failed: list[EnvmgrError] = []
    for path, entries in of.items():
        install = ctx.prefix.install_at(path)
        wanted = compression or (None if install.image.exists() else ctx.site.images.compression)
        try:
            made = make_image(install, wanted, maker=maker, runner=ctx.runner, reporter=ctx.reporter, dry_run=dry_run)
        except EnvmgrError as error:
            ctx.runner.raise_if_cancelled()
            failed.append(error)
        else:
            image = ctx.prefix.named(str(install.image))
            rows.append(ImageRow(path, image, entries, made.status, made.size, made.of, made.compression, made.why))
    if failed:
        first, *others = failed
        first.context = (*first.context, *(f"and: {error.message}" for error in others))
        raise first
    return tuple(rows)


def installs_of(current: GenerationRecord, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the installs that the entries stand on, each with those entries."""
    found: dict[str, list[str]] = {}
    for name in names:
        for path in current.entries[name].paths:
            if name not in found.setdefault(path, []):
                found[path].append(name)
    return {path: tuple(entries) for path, entries in found.items()}


def trees_not_ours(current: GenerationRecord) -> dict[str, str]:
    """Return the installs that lead to trees outside of the store, with these trees."""
    return {row.path: row.not_ours for row in current.entries.values() if row.not_ours}
