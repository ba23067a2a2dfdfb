"""`envmgr new`: write the recipe of a new entry for packages of the index, or of conda's channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from envmgr.catalog.names import parse_entry
from envmgr.exchange.recipes import draft_of_packages
from envmgr.report import Lines, Result
from envmgr.steps import Context
from envmgr.steps.draft import require_free, write_draft
from envmgr.steps.lock_checks import require_new_name
from envmgr.system.scratch import clear_dead_scratch
from envmgr.verbs import DryRun, argument, needs, option
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


@needs("prefix")
def new(
    ctx: Context,
    entry: Annotated[str, argument("The new entry.", "NAME/VERSION")],
    packages: Annotated[
        list[str] | None, argument("What to ask for, as 'numpy<2'; by default NAME in its VERSION.", "PACKAGE")
    ] = None,
    conda: Annotated[
        list[str] | None, option("Take packages of this conda channel; of several, the first has priority.", "CHANNEL")
    ] = None,
    dry_run: DryRun = False,
) -> NewResult:
    """Write a recipe for these packages.

    Packages of the index stand on the newest Python of the catalog that is built; without any, on the system's.
    """
    found = parse_entry(entry)
    root = ctx.catalog.own_root()
    if not dry_run:
        clear_dead_scratch(root / found.name)
    require_free(ctx, root, found, _WAY)
    require_new_name(found, ctx.catalog, ctx.prefix)
    asked = [*(packages or ())] or [f"{found.name}{' ' if (conda or ()) else '=='}{found.version}.*"]
    draft = draft_of_packages(asked, (conda or ()), found, ctx.site)
    description = and_more(asked, 5)
    target, files = write_draft(ctx, root, draft, "`envmgr new`", description, _WAY, dry_run=dry_run)
    return NewResult(
        str(found),
        str(target),
        files,
        draft.backend,
        draft.input.get("python"),
        draft.imports,
        (f"envmgr lock {found}", f"envmgr build {found}"),
        dry_run,
    )
