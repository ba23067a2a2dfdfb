"""`envmgr user show`: one environment of this user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from envmgr.people.places import user_places
from envmgr.report import Lines, Result
from envmgr.steps import Context
from envmgr.steps.user_rows import UserRow, current_record, row_lines, row_of
from envmgr.verbs import needs
from envmgr.verbs.user import Name


@dataclass(frozen=True, slots=True)
class UserShowResult(Result):
    """One environment of this user."""

    schema: ClassVar[str] = "envmgr.user-show/1"
    environment: UserRow

    def lines(self) -> Lines:
        row = self.environment
        yield from row_lines([row])
        yield f"asked for: {', '.join(row.requirements) or 'nothing'}"
        for package in row.packages:
            yield f"  {package}"
        for folder in row.editable:
            yield f"  {folder}, as it is: no lock holds it"
        yield f"in {row.path}"


@needs("nothing")
def show(ctx: Context, name: Name) -> UserShowResult:
    """Show the packages of an environment."""
    return UserShowResult(row_of(user_places(ctx.environ), name, current_record(ctx)))
