"""`envmgr user update`."""

from __future__ import annotations

from typing import Annotated

import typer

from envmgr.people.wishes import unchanged
from envmgr.steps import Context
from envmgr.steps.user import UserResult, change_environment
from envmgr.verbs import needs
from envmgr.verbs.options import DryRun
from envmgr.verbs.user import Jobs, Name


@needs("prefix")
def update(
    ctx: Context,
    name: Name,
    rebase: Annotated[bool, typer.Option("--rebase", help="Take the install that the entry has now.")] = False,
    jobs: Jobs = 0,
    dry_run: DryRun = False,
) -> UserResult:
    """Choose the packages of an environment again."""
    return change_environment(ctx, name, unchanged, rebase=rebase, jobs=jobs, dry_run=dry_run)
