"""The prefix made ready for a run that changes it: what killed runs left is removed; room, and the right to write
there, are checked before any work is done.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from envmgr.backends import Backend, LoadedLock, OwnFolder, all_backends
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.publish.records import published_installs
from envmgr.report import Reporter
from envmgr.store.dead_builds import clear_dead_rows, clear_kept_rows
from envmgr.store.image import clear_dead_images
from envmgr.store.jobtable import lives_elsewhere, remove_dead_holds
from envmgr.store.place import write_place
from envmgr.store.prefix import Install, Prefix
from envmgr.store.user_holds import make_holds_folder
from envmgr.system.files import explain_os_error, free_bytes, group_id
from envmgr.system.locks import try_file_lock
from envmgr.system.modes import ask_owner
from envmgr.system.processes import host_mark
from envmgr.system.safe_paths import change, remove_below
from envmgr.system.usernames import own_name, user_name
from envmgr.system.users import Account
from envmgr.wording import size_text

_ABANDONED = 86400.0  # seconds without a byte after which another host's download counts as given up


def clean_leftovers(prefix: Prefix, reporter: Reporter) -> list[str]:
    """Remove what killed runs left, and return the paths of the store, relative to it.

    Removed are staging folders, trees without a manifest, incomplete manifests and downloads, and what each backend
    knows of. For dead builds these are also their processes, their private folders, and their rows in the job table. A
    lock that is held belongs to a build that is alive, whose files stay. A tree without a manifest that a generation
    names is in use, and stays.
    """
    for part in prefix.cache.glob("*/*/.*.part"):
        with suppress(FileNotFoundError), try_file_lock(part) as free:
            if free and not _is_of_another_host(part):
                remove_below(prefix.root, part)
    for mark in prefix.locks.glob("*.lock.holder"):
        with try_file_lock(mark.with_suffix("")):  # one of a dead run goes with that
            pass
    clear_dead_images(prefix)
    backends = all_backends()

    def own(install: Install) -> None:
        for backend in backends:
            backend.clear_dead_build(install)

    clear_dead_rows(prefix, reporter, own=own)
    clear_kept_rows(prefix, reporter)
    remove_dead_holds(prefix)
    removed = []
    published: set[str] | None = None
    for name_folder in sorted(prefix.store.iterdir()) if prefix.store.is_dir() else ():
        for path in sorted(name_folder.iterdir()) if name_folder.is_dir() else ():
            label = _leftover_of(path)
            if label is None:
                continue
            with try_file_lock(prefix.locks / f"store-{name_folder.name}-{label}.lock") as free:
                if not free or _leftover_of(path) is None:  # looked at again under the lock: it may be finished by now
                    continue
                install = prefix.install_at(f"store/{name_folder.name}/{label}")
                if lives_elsewhere(install):
                    continue
                if path.name == label:
                    # This reads the records of all generations: only a tree without a manifest is worth it.
                    published = published_installs(prefix) if published is None else published
                    if install.relative in published:
                        reporter.say(
                            f"warning: {path} has no manifest, and is published: `envmgr verify` tells what makes "
                            "it again"
                        )
                        continue
                reporter.log(f"removing {path}, left by a build that was killed")
                try:
                    remove_below(prefix.root, path)
                    removed.append(str(path.relative_to(prefix.store)))
                except OSError as error:  # only its own entry needs that place
                    reporter.say(f"warning: cannot remove {path}, left by a build that was killed: {error.strerror}")
    for backend in backends:
        backend.clean(prefix, reporter)
    return removed


def _is_of_another_host(part: Path) -> bool:
    """Return whether it belongs to another host, which may still write it if the file system keeps locks per client."""
    host = re.fullmatch(r"\..+\.([0-9a-f]{8})\.part", part.name)
    return host is not None and host[1] != host_mark() and time.time() - part.stat().st_mtime < _ABANDONED


def _leftover_of(path: Path) -> str | None:
    """Return the label of the install to which the unfinished `path` belongs; None if it is finished, or gone."""
    if match := re.fullmatch(r"\.(.+)\.manifest\.json\.\d+\.\d+\.tmp", path.name):
        return match[1] if path.exists() else None
    if not path.is_dir():
        return None
    if match := re.fullmatch(r"\.(?:staging|again)-(.+)", path.name):
        return match[1]
    return None if path.with_name(f"{path.name}.manifest.json").exists() else path.name


def require_space(locks: Sequence[LoadedLock], site: Site) -> None:
    """Require room for all builds before the first one, by the sizes in the locks. Raises EnvmgrError `disk-full`."""
    free = free_bytes(site.prefix)
    download = sum(lock.download or 0 for lock in locks)
    unpacked = sum(lock.installed or 0 for lock in locks)
    needed = download + unpacked + site.policies.min_free
    if locks and free < needed:
        names = ", ".join(str(lock.entry) for lock in locks)
        raise EnvmgrError(
            "disk-full",
            f"{names} needs {size_text(needed)} under {site.prefix}, {size_text(free)} are free",
            context=f"download {size_text(download)}, install about {size_text(unpacked)}, "
            f"policies.min_free {size_text(site.policies.min_free)}",
            hint="free some space (`envmgr gc` removes old generations and unused installs), then run the same "
            "command again",
        )


def can_write(site: Site, backends: Iterable[Backend] = ()) -> None:
    """Make the prefix and its first folders under the site's policies, or raise before any work is done.

    The folders of `backends` are also made; those of other backends are only checked. If the site names a group, the
    folders belong to it and pass it on (setgid), so that its members reach the modules with any umask. Existing folders
    are checked too: a run as another user may have made one.

    Raises:
        EnvmgrError: `not-writable`, `group-not-yours`, `unknown-group`.
    """
    prefix = Prefix(site.prefix)
    group = group_id(site.policies.group)
    own = list(_own_folders(prefix, {backend.name for backend in backends}))
    for folder in (*_first_folders(prefix), *(each.path for each in own)):
        with explain_os_error(folder):
            new = not folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True)
        for fault in _unwritable(folder, own_name()):
            raise fault
        if group is not None and (new or folder.stat().st_gid != group):
            _give_to_group(folder, group, site)
        elif group is not None and not _is_of_group(folder, group):
            with suppress(EnvmgrError):  # another member's: it can be used, but does not pass the group on
                _give_to_group(folder, group, site)
    write_place(prefix)
    make_holds_folder(site)
    if group is not None:
        for folder in (below for each in own if each.public for below in sorted(each.path.iterdir())):
            if folder.is_dir() and not _is_of_group(folder, group):
                _give_public(folder, group, site)


def write_faults(site: Site, account: Account) -> Iterator[EnvmgrError]:
    """Yield what would keep `account`, the effective user, from writing where a build writes.

    The errors are those that `can_write` or the build would raise.
    """
    prefix = Prefix(site.prefix)
    if not os.access(prefix.root, os.F_OK, effective_ids=True):  # root makes it, below folders that this user must pass
        above = next(parent for parent in prefix.root.parents if os.access(parent, os.F_OK, effective_ids=True))
        if not os.access(above, os.X_OK, effective_ids=True):
            yield EnvmgrError(
                "not-writable",
                f"{account.name} cannot reach {prefix.root}: {above} is closed to it",
                hint=ask_owner([str(above)], whom=account.name, to="enter"),
            )
    elif faults := tuple(_unwritable(prefix.root, account.name)):
        yield from faults
    else:
        try:
            with explain_os_error(prefix.root):
                folders = (*_first_folders(prefix), *(each.path for each in _own_folders(prefix, ())))
                faults = tuple(fault for each in folders if each.is_dir() for fault in _unwritable(each, account.name))
        except EnvmgrError as closed:  # a folder above one of them is closed to this user
            faults = (closed,)
        yield from faults


def group_faults(site: Site, account: Account) -> Iterator[EnvmgrError]:
    """Yield what would keep `account` from giving folders to the site's group. A missing group is reported
    elsewhere.
    """
    with suppress(EnvmgrError):
        if site.policies.group is not None and account.uid and group_id(site.policies.group) not in account.groups():
            yield _group_not_theirs(account.name, site.prefix, site)


def _unwritable(folder: Path, user: str) -> Iterator[EnvmgrError]:
    """Yield an error if the effective user cannot write there."""
    # access(2) asks for the real user by default, and it is the effective user that writes.
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        reason = f"it belongs to {user_name(folder.stat().st_uid)}, running as {user}"
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            reason = "it is mounted read-only"
        hint = "run as the site's build user (as root, envmgr changes to it), or give this user the whole prefix"
        yield EnvmgrError("not-writable", f"cannot write {folder}", context=reason, hint=hint)


def _first_folders(prefix: Prefix) -> Iterator[Path]:
    """Yield the folders in the order in which they are made; the last ones only if they exist."""
    yield from (prefix.root, prefix.store, prefix.generations, prefix.source_cache)
    yield from (prefix.locks, prefix.logs, prefix.jobs, prefix.holds)
    yield from (each for each in (prefix.slurm_jobs,) if each.is_dir())


def _own_folders(prefix: Prefix, used: Collection[str]) -> Iterator[OwnFolder]:
    """Yield the folders of the backends: all of those in `used`, and the existing ones of the other backends."""
    for backend in all_backends():
        yield from (each for each in backend.folders(prefix) if backend.name in used or each.path.is_dir())


def _is_of_group(folder: Path, group: int) -> bool:
    status = folder.stat()
    return status.st_gid == group and bool(status.st_mode & stat.S_ISGID)


def _give_public(folder: Path, group: int, site: Site) -> None:
    """Give the group the files that every user reads, such as modules of generations, made before the site named its
    group.
    """
    with suppress(OSError, EnvmgrError):  # another member's; they can be read all the same
        for path in folder.iterdir():
            change(path, group=group, kinds=(stat.S_ISDIR, stat.S_ISREG))
        _give_to_group(folder, group, site, also=0o555)


def _give_to_group(folder: Path, group: int, site: Site, *, also: int = 0) -> None:
    with explain_os_error(folder):
        try:
            change(folder, group=group, mode=0o2777 & ~site.policies.mask | also)
        except PermissionError:
            raise _group_not_theirs(own_name(), folder, site) from None


def _group_not_theirs(user: str, folder: Path, site: Site) -> EnvmgrError:
    return EnvmgrError(
        "group-not-yours",
        f"{user} cannot give {folder} to the group {site.policies.group}",
        context="policies.group in site.yaml",
        hint=f"make the build user a member: usermod -aG {site.policies.group} {user}",
    )
