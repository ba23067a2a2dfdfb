"""`envmgr new`: write the recipe of a new entry for packages of the index, or of conda's channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envmgr.catalog.names import parse_entry
from envmgr.exchange.recipes import draft_of_packages
from envmgr.report import Lines, Result
from envmgr.steps import Context
from envmgr.steps.entry_faults import require_new_name
from envmgr.steps.exchange import require_free, write_draft
from envmgr.system.scratch import clear_dead_scratch
from envmgr.wording import and_more

_WAY = "name another version"


@dataclass(frozen=True, slots=True)
class NewResult(Result):
    """A recipe that was written. `python` is the entry that it stands on, or `system`; None for packages of conda.
    `imports` are the distributions that its test imports; `commands` are what makes a module of it.
    """

    schema: ClassVar[str] = "envmgr.new/1"
    entry: str
    folder: str
    files: tuple[str, ...]
    backend: str
    python: str | None
    imports: tuple[str, ...]
    commands: tuple[str, ...]
    dry_run: bool

    def lines(self) -> Lines:
        stands = f", on {self.python}" if self.python else ""
        yield f"{'would write' if self.dry_run else 'wrote'} {self.folder}: {', '.join(self.files)}{stands}"
        yield from self.commands


def new_entry(
    ctx: Context, name: str, packages: Sequence[str], *, channels: Sequence[str] = (), dry_run: bool = False
) -> NewResult:
    """Write the recipe of an entry into the first catalog that can be written. Without `packages` it is for the one of
    its own name, in its version. `channels` are conda's; without any, the packages are of the index.

    Raises:
        InputError: `entry-syntax`, `entry-exists`, `entry-clash`, `requirement-invalid`. Nothing is written then.
        EnvmgrError: `no-catalog`; the catalog cannot be written.
    """
    entry = parse_entry(name)
    root = ctx.catalog.own_root()
    if not dry_run:
        clear_dead_scratch(root / entry.name)
    require_free(ctx, root, entry, _WAY)
    require_new_name(entry, ctx.catalog, ctx.prefix)
    asked = [*packages] or [f"{entry.name}{' ' if channels else '=='}{entry.version}.*"]
    draft = draft_of_packages(asked, channels, entry, ctx.site)
    description = and_more(asked, 5)
    target, files = write_draft(ctx, root, draft, "`envmgr new`", description, _WAY, dry_run=dry_run)
    return NewResult(
        str(entry),
        str(target),
        files,
        draft.backend,
        draft.input.get("python"),
        draft.imports,
        (f"envmgr lock {entry}", f"envmgr build {entry}"),
        dry_run,
    )
