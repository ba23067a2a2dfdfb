"""The places that site.yaml names, as this machine finds them: rows and faults of `check`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from envmgr.backends import all_backends
from envmgr.builds.prepare import group_faults, write_faults
from envmgr.catalog.entries import closed_catalog
from envmgr.catalog.settings import SiteFact, mirror_faults
from envmgr.catalog.site import MAX_PREFIX, Site
from envmgr.catalog.site_file import is_plain_path
from envmgr.errors import EnvmgrError
from envmgr.steps import Context
from envmgr.store.place import require_place
from envmgr.store.prefix import Prefix
from envmgr.system.files import free_bytes
from envmgr.system.locks import LOCKS_HINT, local_locks, mount_of
from envmgr.system.modes import give_place
from envmgr.system.scratch import temporary_files
from envmgr.system.usernames import own_name
from envmgr.system.users import access_faults, find_account
from envmgr.wording import counted, size_text

SHEBANG_LIMIT = 127  # longer #! lines are not run by the kernel; conda packages then start through /bin/sh


def prefix_row(ctx: Context) -> Iterator[SiteFact]:
    """Yield the prefix with its room, and what is wrong with it."""
    site, prefix = ctx.site, ctx.site.prefix
    existing = _existing(prefix)
    if prefix.exists():
        free = size_text(free_bytes(prefix))
        yield SiteFact("prefix", "ok", f"{prefix}, {free} free on {file_system(prefix)}")
        try:
            require_place(Prefix(prefix))
        except EnvmgrError as error:
            yield SiteFact("prefix", "error", error.message, error.hint)
    elif os.access(existing, os.W_OK) or (os.geteuid() == 0):
        yield SiteFact("prefix", "ok", f"{prefix} does not exist yet; the first build makes it")
    else:
        text = f"{prefix} does not exist and {existing} cannot be written"
        yield SiteFact("prefix", "error", text, "make it, and give it to the build user")
    longest = len(str(prefix / "store" / "pytorch" / "2.1-cuda11.8-01234567" / "bin" / "python"))
    if longest > MAX_PREFIX + len("/bin/python"):
        text = f"{longest} characters to an interpreter: packages have room for {MAX_PREFIX}"
        yield SiteFact("prefix", "error", text, "choose a shorter prefix")
    elif longest > SHEBANG_LIMIT:
        text = f"{longest} characters to an interpreter: scripts start through /bin/sh"
        yield SiteFact("prefix", "warning", text, "a shorter prefix avoids it")
    if prefix.exists() and site.build_user is None and not os.access(prefix, os.W_OK):
        hint = "name its owner as build_user, or run as that user"
        yield SiteFact("prefix", "error", f"{prefix} cannot be written by you", hint)


def build_user_row(ctx: Context) -> Iterator[SiteFact]:
    """Yield who builds, and what that user cannot do."""
    site = ctx.site
    if site.build_user is None:
        yield SiteFact("build_user", "ok", "none: installs belong to the user that runs envmgr")
        return
    account = find_account(site.build_user)
    if account is None:
        hint = f"useradd --system --create-home {site.build_user}"
        yield SiteFact("build_user", "error", f"{site.build_user} does not exist here", hint)
        return
    foreign = site.prefix.exists() and site.prefix.stat().st_uid != account.uid
    of_backends = (path for backend in all_backends() for path in backend.reads(site))
    reads = [*site.read_by_verbs, *of_backends, *_in_catalogs(site)]
    faults = access_faults(account, reads, lambda: () if foreign else write_faults(site, account))
    faults = None if faults is None else (*faults, *group_faults(site, account))
    known = f"{site.build_user} (uid {account.uid})"
    if faults is None:
        text = f"{known}; only root and {site.build_user} see what it can run, read and write"
        yield SiteFact("build_user", "ok", text)
    elif not faults:
        yield SiteFact("build_user", "ok", f"{known}: it can run envmgr, read the site and write the prefix")
    for fault in faults or ():
        yield SiteFact("build_user", "error", f"{fault.reference}: {fault.message}", fault.hint)
    if foreign:
        text = f"{site.prefix} does not belong to {site.build_user}"
        yield SiteFact("prefix", "error", text, give_place(site.build_user, site.prefix))


def _in_catalogs(site: Site) -> Iterator[Path]:
    """Yield all that a build may read in the site's own catalogs."""
    for root in site.catalogs:
        if root != site.shipped_catalog and closed_catalog(root) is None:
            yield from (path for depth in ("*", "*/*", "*/*/*") for path in sorted(root.glob(depth)))


def catalogs_row(ctx: Context) -> Iterator[SiteFact]:
    """Yield the catalogs with their numbers of recipes, and those that cannot be read."""
    said = []
    for root in ctx.site.catalogs:
        if closed := closed_catalog(root):
            yield SiteFact("catalogs", "error", closed.message, closed.hint)
        elif not root.exists():
            yield SiteFact("catalogs", "error", f"{root} does not exist", f"mkdir {root}")
        elif not root.is_dir():
            yield SiteFact("catalogs", "error", f"{root} is no folder", "name the folder with the recipes")
        else:
            said.append(f"{root}: {counted(len(list(root.glob('*/*/recipe.yaml'))), 'recipes')}")
    if said:
        yield SiteFact("catalogs", "ok", "; ".join(said))


def _build_dir(ctx: Context) -> Iterator[SiteFact]:
    """Yield what a build would meet there: the folder must be writable for the user that builds, and run programs."""
    field, site = "build_dir", ctx.site
    try:
        folder = site.build_dir or temporary_files()
    except EnvmgrError as error:
        yield SiteFact(field, "error", error.message, error.hint)
        return
    existing = _existing(folder)
    unwritable = _unwritable(site, existing)
    if not is_plain_path(folder):
        text = f"{folder}: spaces, colons, quotes and shell characters do not survive makefiles"
        yield SiteFact(field, "error", text, "name another folder")
    elif not existing.is_dir():
        yield SiteFact(field, "error", f"{existing} is no folder", "name a folder")
    elif unwritable and existing == folder:
        yield SiteFact(field, "error", f"{unwritable} cannot write {folder}", give_place(unwritable, folder))
    elif unwritable:
        text = f"{folder} does not exist, and {unwritable} cannot write {existing}"
        yield SiteFact(field, "error", text, f"as root: `install -d -o {unwritable} {folder}`")
    elif os.statvfs(existing).f_flag & os.ST_NOEXEC:
        text = f"{folder} is mounted noexec: programs of a build cannot run there"
        yield SiteFact(field, "error", text, "name a folder on another file system")


def _unwritable(site: Site, folder: Path) -> str:
    """Return the name of the user that builds if it cannot write the folder; empty if it can, or if that cannot be seen."""
    account = find_account(site.build_user) if site.build_user is not None else None
    if site.build_user is None:
        return "" if os.access(folder, os.W_OK | os.X_OK) else own_name()
    if account is None:
        return ""
    closed = list[str]()

    def look() -> tuple[EnvmgrError, ...]:
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            closed.append(account.name)
        return ()

    access_faults(account, (), look)
    return "".join(closed)


def _lmod(ctx: Context) -> Iterator[SiteFact]:
    try:
        ctx.find_lmod().version()
    except EnvmgrError as error:
        yield SiteFact("lmod", "error", error.message, error.hint)


def _mirrors(ctx: Context) -> Iterator[SiteFact]:
    field, sources = "sources.mirrors", ctx.site.sources
    yield from mirror_faults(field, sources.mirrors)
    if not sources.mirrors and not sources.upstream:
        hint = "name a mirror, or leave out `upstream: false`"
        yield SiteFact(field, "warning", "none, and upstream is not asked: only the cache has sources", hint)


def _mount(ctx: Context) -> Iterator[SiteFact]:
    """Yield what nodes should not have either: `audit` asks them."""
    wanted, prefix = ctx.site.mount.source, ctx.site.prefix
    if not prefix.exists():
        return
    kind, source, options = mount_of(prefix)
    if wanted not in (None, source):
        text = f"{wanted} is not what this machine has, {source} ({kind})"
        yield SiteFact("mount.source", "warning", text, "on the file server itself that is right")
    if ctx.site.mount.locks != "local" and (local := local_locks(kind, options)):
        yield SiteFact("mount.locks", "warning", local[1], LOCKS_HINT)


def _existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if os.path.lexists(each))


def file_system(path: Path) -> str:
    """Return `ext4` or `nfs4 fs1:/export`."""
    kind, source, _ = mount_of(path)
    return f"{kind} {source}" if ":" in source else kind


PLACE_LOOKS = (_build_dir, _lmod, _mirrors, _mount)
