"""`envmgr user remove`."""

from __future__ import annotations

from typing import Annotated

import typer

from envmgr.people.wishes import without_packages
from envmgr.steps import Context
from envmgr.steps.user import UserResult, change_environment
from envmgr.verbs import needs
from envmgr.verbs.options import DryRun
from envmgr.verbs.user import Jobs, Name


@needs("prefix")
def remove(
    ctx: Context,
    name: Name,
    packages: Annotated[list[str], typer.Argument(metavar="PACKAGE", help="Packages that you asked for.")],
    jobs: Jobs = 0,
    dry_run: DryRun = False,
) -> UserResult:
    """Take packages out of an environment."""
    return change_environment(ctx, name, without_packages(packages), jobs=jobs, dry_run=dry_run)
