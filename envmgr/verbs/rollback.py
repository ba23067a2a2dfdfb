"""`envmgr rollback`: make an earlier generation current."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from envmgr.builds.prepare import can_write
from envmgr.errors import EnvmgrError
from envmgr.publish.flips import last_current
from envmgr.publish.generations import require_no_candidate
from envmgr.publish.generations import rollback as flip_back
from envmgr.report import Lines, Result
from envmgr.steps import Context, published_record
from envmgr.steps.status import keep_status
from envmgr.verbs import DryRun, argument, needs


@dataclass(frozen=True, slots=True)
class RollbackResult(Result):
    schema: ClassVar[str] = "envmgr.rollback/1"
    before: int
    after: int
    dry_run: bool

    def lines(self) -> Lines:
        word = "would be" if self.dry_run else "is"
        yield f"generation {self.after} {word} current (was {self.before}); new shells get it, running ones keep theirs"


@needs("write")
def rollback(
    ctx: Context,
    generation: Annotated[
        int | None, argument("Number of the generation; by default the one before the current one.")
    ] = None,
    dry_run: DryRun = False,
) -> RollbackResult:
    """Make an earlier generation current."""
    if generation is None:
        current = published_record(ctx)
        generation = current.parent
        if generation is None:
            message = f"generation {current.number} is the first: there is nothing to go back to"
            raise EnvmgrError("no-generation", message)
    before = last_current(ctx.prefix)
    if before is None:
        published_record(ctx)  # raises: nothing was published
    require_no_candidate(ctx.prefix, generation)
    if dry_run:
        return RollbackResult(before or generation, generation, True)
    can_write(ctx.site)
    before, after = flip_back(generation, ctx.prefix, ctx.runner, ctx.reporter, signer=ctx.signer)
    keep_status(ctx)
    return RollbackResult(before, after, False)
