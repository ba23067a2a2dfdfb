"""How an export looks: the file itself, or where it went."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from envmgr.cli.render import out
from envmgr.wording import counted

if TYPE_CHECKING:
    from envmgr.commands.export import ExportResult


def show_export(result: ExportResult) -> None:
    if result.output is None:
        sys.stdout.write(result.text)
        return
    out(
        f"{'would write' if result.dry_run else 'wrote'} {result.output}: {counted(len(result.entries), 'entries')} of generation"
        f" {result.generation} for {result.to}, as {result.system}"
    )
    for part in result.parts:
        out(f"  {part.name}: {part.nodes or 'this host'}, {counted(len(part.entries), 'entries')}")
