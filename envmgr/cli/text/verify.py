"""How a verification looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envmgr.cli.render import out
from envmgr.wording import counted

if TYPE_CHECKING:
    from envmgr.commands.verify import VerifyResult


def show_verify(result: VerifyResult) -> None:
    for finding in result.findings:
        on = f"{finding.nodes}: " if finding.nodes else ""
        out(f"{finding.severity}[{finding.check}]: {on}{finding.where}: {finding.found}")
    for hint in dict.fromkeys(f.hint for f in result.findings if f.hint):
        out(f"hint: {hint}")
    for line in result.not_looked_at:
        out(f"not looked at: {line}")
    for path, places in result.made_at.items():
        out(
            f"not reproducible: {path}: built in {', '.join(places)}: elsewhere, or by another user, its files may differ"
        )
    for line in result.repaired:
        out(f"{'would make' if result.dry_run else 'made'} again: {line}")
    if result.generation is not None:
        out(f"generation {result.generation} is current")
    if result.flip:
        out(result.flip)
    on = f", on {result.nodes}" if result.nodes else ", on no node" if result.not_verified else ""
    wrong = {f.where.split("/")[1] for f in result.findings if f.check == "generation"}
    out(f"{counted(len(result.generations), 'generations')} verified{on}, {_differ(len(wrong), 'record')}")
    bad = {f.where for f in result.findings if f.check == "install"}
    out(f"{counted(len(result.checked), 'installs')} verified{on}, {_differ(len(bad), 'manifest')}")
    if result.not_verified:
        out(f"not verified: {result.not_verified}")


def _differ(count: int, of: str) -> str:
    return f"{count} {'differs from its' if count == 1 else 'differ from their'} {of}"
