"""Images, and what is staged, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envmgr.cli.render import out, table
from envmgr.wording import duration, size_text

if TYPE_CHECKING:
    from envmgr.commands import image, stage

_STATUS = {"made": "made", "there": "was there", "would-make": "would be made"}


def show_image(result: image.ImageResult) -> None:
    rows = []
    for row in result.images:
        size = f"{size_text(row.size)} of {size_text(row.of)}" if row.size else size_text(row.of)
        share = f"{row.size / row.of:.2f}" if row.size and row.of else ""
        rows.append([row.image, _STATUS[row.status], row.compression, size, share, row.why])
    table(rows)
    for line in result.left_out:
        out(f"no image of {line}")
    if result.log is not None:
        out(f"log: {result.log}")


_WORDS = {
    "local": "from its own disk",
    "share": "from the share",
    "waiting": "not mounted",
    "other": "something else",
    "none": "not mounted",
    "failed": "failed",
}


def show_stage(result: stage.StageResult) -> None:
    rows = []
    for image in result.images:
        part = "" if image.copied == image.size else f"{size_text(image.copied)} of "
        copied = f"{part}{size_text(image.size)}"
        what = ", ".join(image.entries) or image.path
        age = duration(image.age) if image.copied else ""
        rows.append([image.nodes, what, _WORDS[image.state], copied, age, image.why])
    table(rows)
    for line in result.removed:
        out(f"{'would be removed:' if result.dry_run else 'removed'} {line}")
    for fault in result.faults:
        out(f"error {fault.nodes}: {fault.why}")
    if result.way:
        out(f"copied {result.way}")
    if not rows and not result.faults and not result.removed:
        out(f"nothing is staged on {result.nodes}")
