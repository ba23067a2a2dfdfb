"""`envmgr user export`: the lock of an environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envmgr.people.environments import require_environment
from envmgr.people.lock import lock_of, lock_text
from envmgr.people.places import user_places
from envmgr.report import Lines, Result, Verbatim
from envmgr.steps import Context
from envmgr.system.files import atomic_write
from envmgr.verbs import DryRun, OutputOption, needs
from envmgr.verbs.user import Name


@dataclass(frozen=True, slots=True)
class UserExportResult(Result):
    """The lock of an environment as text; `output` is its file, None for none. `rows` ask for just its packages, in a
    recipe such as that of the entry `on`.
    """

    schema: ClassVar[str] = "envmgr.user-export/1"
    name: str
    on: str
    rows: tuple[str, ...]
    text: str
    output: Path | None
    dry_run: bool

    def lines(self) -> Lines:
        if self.output is None:
            yield Verbatim(self.text)
            return
        done = "would write" if self.dry_run else "wrote"
        yield f"{done} {self.output}: `envmgr user create NAME --from-lock {self.output}` makes the same packages"
        yield f"as an entry on a bare Python: `envmgr import {self.output} --as NAME/VERSION`"
        yield f"as one with all of {self.on}: a copy of its recipe, with these rows in `pip` (of wheels: `requirements`)"
        yield f"  [{', '.join(self.rows)}]"


@needs("nothing")
def export(ctx: Context, name: Name, output: OutputOption = None, dry_run: DryRun = False) -> UserExportResult:
    """Write the lock of an environment, for a colleague."""
    lock = lock_of(require_environment(user_places(ctx.environ), name))
    text, rows = lock_text(lock), tuple(f"{each}=={version}" for each, version in sorted(lock.versions.items()))
    if output is not None and not dry_run:
        atomic_write(output, text)
    return UserExportResult(name, lock.on, rows, text, output, dry_run)
