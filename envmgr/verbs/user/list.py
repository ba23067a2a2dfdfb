"""`envmgr user list`: the environments of this user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from envmgr.people.places import user_places
from envmgr.report import Lines, Result
from envmgr.steps import Context
from envmgr.steps.user_rows import UserRow, current_record, row_lines, row_of
from envmgr.verbs import needs


@dataclass(frozen=True, slots=True)
class UserListResult(Result):
    """The environments of this user, sorted by name."""

    schema: ClassVar[str] = "envmgr.user-list/1"
    folder: str
    environments: tuple[UserRow, ...]

    def lines(self) -> Lines:
        if not self.environments:
            yield f"no environment in {self.folder}: `envmgr user create NAME --on ENTRY PACKAGE` makes one"
        yield from row_lines(self.environments)


@needs("nothing")
def list_(ctx: Context) -> UserListResult:
    """List your environments, with their state."""
    places, record = user_places(ctx.environ), current_record(ctx)
    return UserListResult(str(places.folder), tuple(row_of(places, name, record) for name in places.names()))
