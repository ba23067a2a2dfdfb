"""`envmgr user add`."""

from __future__ import annotations

from envmgr.people.wishes import with_packages
from envmgr.steps import Context
from envmgr.steps.user import UserResult, change_environment
from envmgr.verbs import needs
from envmgr.verbs.options import DryRun
from envmgr.verbs.user import Jobs, Name, Packages, Replace, Requirements


@needs("prefix")
def add(
    ctx: Context,
    name: Name,
    packages: Packages = None,
    requirements: Requirements = None,
    replace: Replace = None,
    jobs: Jobs = 0,
    dry_run: DryRun = False,
) -> UserResult:
    """Add packages to an environment."""
    change = with_packages(packages or (), requirements, replace or (), ctx.runner, ctx.reporter)
    return change_environment(ctx, name, change, jobs=jobs, dry_run=dry_run)
