"""`envmgr user delete`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from envmgr.people.environments import amount, installs_of, links_of, remains_of, require_environment
from envmgr.people.kernel import kernel_file, remove_kernel
from envmgr.people.places import UserPlaces, user_places
from envmgr.report import Lines, Result
from envmgr.steps import Context
from envmgr.steps.user import changing, holding
from envmgr.system.files import explain_os_error, remove_tree
from envmgr.system.safe_paths import remove_below
from envmgr.verbs import DryRun, needs
from envmgr.verbs.user import Name
from envmgr.wording import inodes_text


@dataclass(frozen=True, slots=True)
class UserDeleteResult(Result):
    """An environment that was deleted, or would be. `inodes` and `size` (bytes) came free."""

    schema: ClassVar[str] = "envmgr.user-delete/1"
    name: str
    path: str
    inodes: int
    size: int
    dry_run: bool

    def lines(self) -> Lines:
        done = "would delete" if self.dry_run else "deleted"
        yield f"{done} user/{self.name}: {inodes_text(self.inodes, self.size)}"


@needs("nothing")
def delete(ctx: Context, name: Name, dry_run: DryRun = False) -> UserDeleteResult:
    """Delete an environment and its module."""
    places = user_places(ctx.environ)
    require_environment(places, name)  # before a lock is made
    with changing(ctx, places, name, dry_run=dry_run):
        install = require_environment(places, name)
        inodes, size = amount(installs_of(install.prefix, name))
        if not dry_run:
            _remove(ctx, places, name)
        return UserDeleteResult(name, str(install.path), inodes, size, dry_run)


def _remove(ctx: Context, places: UserPlaces, name: str) -> None:
    """Remove an environment with its module, links and all its installs. Call it under its lock."""
    install = require_environment(places, name)
    with explain_os_error(places.link(name)):
        links = links_of(places, name, install)
        for path in (places.module(name), places.reported(name)):
            path.unlink(missing_ok=True)
        remove_kernel(kernel_file(ctx.environ, name))
        for path in remains_of(install.prefix, name):
            remove_below(install.prefix.root, path)
        for link in links:
            link.unlink(missing_ok=True)
        with holding(ctx.site, places):
            pass
        if install.prefix != places.prefix and not any(install.path.parent.glob("*")):
            remove_tree(install.prefix.root)  # the one beside `--at` was only for this
