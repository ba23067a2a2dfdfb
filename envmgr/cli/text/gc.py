"""How `gc` tells what went and what stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envmgr.cli.render import out
from envmgr.wording import counted, size_text

if TYPE_CHECKING:
    from envmgr.commands.gc import GcResult

_SHOWN = 20


def show_gc(result: GcResult) -> None:
    verb = "would remove" if result.dry_run else "removed"
    for number in result.generations:
        out(f"{verb} generation {number}")
    for path in (*result.installs, *result.leftovers):
        out(f"{verb} {path}")
    for each in result.kept[:_SHOWN]:
        out(f"kept {each.path}: {each.reason}")
    if (more := len(result.kept) - _SHOWN + result.kept_more) > 0:
        out(f"kept {more} more; `--format json` tells {'more of them' if result.kept_more else 'them'}")
    for reason in result.kept_all:
        out(f"kept all that may be in use: {reason}")
    if not (result.generations or result.installs or result.leftovers):
        out("nothing to remove")
        return
    generations, installs = counted(len(result.generations), "generations"), counted(len(result.installs), "installs")
    out(f"{verb} {generations}, {installs}, {size_text(result.size)}")
