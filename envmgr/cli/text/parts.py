"""The texts of `find` and `sbom`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from envmgr.cli.render import out, table
from envmgr.wording import counted

if TYPE_CHECKING:
    from envmgr.commands.find import FindResult, FoundPart
    from envmgr.commands.sbom import SbomResult


def show_find(result: FindResult) -> None:
    header = ("entry", "package", "version", "of", "generations", "install")
    table([_row(each) for each in result.found], header=header)
    if result.found:
        out()
    for line in dict.fromkeys(each.rebuild for each in result.found if each.rebuild):
        out(f"once the recipe gives another version: {line}")
    for who in dict.fromkeys(who for each in result.found for who in each.held):
        out(f"also for {who}")
    for each in result.unread:
        out(f"not looked at: {each.what}: {each.why}")
    entries = counted(result.entries, "entries")
    where = f"{entries}, {counted(len(result.generations), 'generations')}, {_environments(result)}"
    out(f"{len(result.found)} found in {where}" if result.found else f"no {' and no '.join(result.asked)} in {where}")


def _row(each: FoundPart) -> tuple[str, ...]:
    words = [str(number) for number in each.generations]
    words += [word for word, holds in (("current", each.current), ("default", each.default)) if holds]
    version = f"{each.version}{'' if each.compared else ' (cannot be compared)'}"
    kept = ", ".join(words) or ("users' environments" if each.held else "your environment")
    return each.entry, each.package, version, each.ecosystem, kept, each.install


def _environments(result: FindResult) -> str:
    held = f"what environments of {counted(result.held_by, 'users')} stand on"
    return f"{counted(result.environments, 'environments')} of yours, {held}"


def show_sbom(result: SbomResult) -> None:
    """Print the document as it is, or a table of its parts."""
    if result.text:
        sys.stdout.write(result.text)
        return
    rows = [(p.name, p.version, p.ecosystem, p.licence or "not known", p.sha256[:12], *p.carried) for p in result.parts]
    table(rows, header=("package", "version", "of", "licence", "sha256", "its own SBOMs"))
    out(f"\n{result.of}: {counted(len(result.parts), 'packages')}, generation {result.generation}")
