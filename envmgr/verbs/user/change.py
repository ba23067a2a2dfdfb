"""`envmgr user add`, `remove` and `update`: other packages in an environment."""

from __future__ import annotations

from typing import Annotated

from envmgr.people.wishes import unchanged, with_packages, without_packages
from envmgr.steps import Context
from envmgr.steps.user import UserResult, change_environment
from envmgr.verbs import DryRun, argument, needs, option
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


@needs("prefix")
def remove(
    ctx: Context,
    name: Name,
    packages: Annotated[list[str], argument("Packages that you asked for.", "PACKAGE")],
    jobs: Jobs = 0,
    dry_run: DryRun = False,
) -> UserResult:
    """Take packages out of an environment."""
    return change_environment(ctx, name, without_packages(packages), jobs=jobs, dry_run=dry_run)


@needs("prefix")
def update(
    ctx: Context,
    name: Name,
    rebase: Annotated[bool, option("Take the install that the entry has now.")] = False,
    jobs: Jobs = 0,
    dry_run: DryRun = False,
) -> UserResult:
    """Choose the packages of an environment again."""
    return change_environment(ctx, name, unchanged, rebase=rebase, jobs=jobs, dry_run=dry_run)
