"""Building of one install: under its lock, with enough space, checked, with its manifest written last."""

from __future__ import annotations

import os
import platform
import socket
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envmgr
from envmgr.backends import Backend, Built, LoadedLock, OwnFolder, all_backends
from envmgr.catalog.accept import HIDDEN, named_in
from envmgr.catalog.gpu_codes import same_effect
from envmgr.catalog.lock_rules import COMMANDS
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.modules.spec import EnvOp
from envmgr.publish.compose import recipe_changes
from envmgr.report import Reporter
from envmgr.store.manifest import InstallFacts, make_manifest, read_manifest, write_manifest
from envmgr.store.place import write_place
from envmgr.store.prefix import Install, Item, Prefix
from envmgr.store.verify import Verified
from envmgr.system.files import explain_os_error, free_bytes, group_id, sha256_file
from envmgr.system.locks import file_lock
from envmgr.system.modes import ask_owner, give_place
from envmgr.system.run import Runner
from envmgr.system.safe_paths import change, remove_below
from envmgr.system.usernames import own_name, user_name
from envmgr.system.users import Account
from envmgr.wording import shortened, size_text, utc_now

_ATTRIBUTES = 61.0  # seconds for which a client of NFS caches a folder's attributes. Source: nfs(5), acdirmax


@dataclass(frozen=True, slots=True)
class Ensured:
    """An install that exists. `tree` is its tree digest, `seconds` wall-clock."""

    install: Install
    built: bool
    facts: InstallFacts
    tree: str
    seconds: float


def ensure_install(
    recipe: Recipe,
    lock: LoadedLock,
    item: Item,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    jobs: int,
    verified: Verified,
) -> Ensured:
    """Build the install, or reuse an existing one. A second builder of the same install waits, and reuses it.

    `verified` is this run's. Installs on which this one is built are verified first, unless this run made them.

    Raises:
        EnvmgrError: `disk-full` before the first byte, any error of the backend, `install-differs`; nothing is left
            behind.
    """
    install = item.install
    install.check_length()
    start = time.monotonic()

    others: list[str] = []

    def waiting(holder: str) -> None:
        others.append(holder)
        reporter.say(f"{install.entry}: waiting for {holder}, which builds it")

    with (
        explain_os_error(install.lock),
        file_lock(install.lock, on_wait=waiting, check=runner.raise_if_cancelled) as held,
    ):
        install.check_digest()
        if install.exists():
            manifest = read_manifest(install.manifest)
            if others:
                _await_landed(install, runner)
            return Ensured(install, False, manifest.facts, manifest.tree, time.monotonic() - start)
        verified.require_needs(item, lock.entry, runner, reporter)
        reporter.log(f"{install.entry}: building {install.path}")
        built = lock.build(item, site, runner, reporter, jobs=jobs)
        try:
            if install.entry == lock.entry:  # other installs are below it, and only its own facts put them on PATH
                require_none_hidden(lock.entry, built.facts.environment, recipe, install.path)
            facts = with_gpu_codes(built.facts, install, recipe, lock, runner, reporter)
            with reporter.stage(f"{install.entry} check", unit="files"), explain_os_error(install.manifest):
                manifest = make_manifest(
                    install.path,
                    install.digest,
                    facts,
                    provenance(install, recipe, lock, built, site),
                    mask=site.policies.mask,
                    workers=max(2, jobs),
                    extra={str(path.relative_to(site.prefix)): sha256_file(path) for path in built.extra},
                )
                compare_promised(install, built.expected, {p.path: p.sha256 for p in manifest.paths})
                held.require()
                write_manifest(install.manifest, manifest)
        except BaseException:
            with suppress(OSError):  # the first error is reported; the next run cleans up
                for path in (install.path, *built.extra) if held.still() else ():  # else they are another run's
                    remove_below(site.prefix, path)
            raise
        verified.made(install.relative)
    return Ensured(install, True, facts, manifest.tree, time.monotonic() - start)


def _await_landed(install: Install, runner: Runner) -> None:
    """Wait until an install that another host just made is seen as read-only.

    A client of NFS may still report the former mode of its folder.
    """
    end = time.monotonic() + _ATTRIBUTES
    while install.path.stat().st_mode & 0o222 and time.monotonic() < end:
        runner.raise_if_cancelled()
        time.sleep(0.5)


def with_gpu_codes(
    facts: InstallFacts, install: Install, recipe: Recipe, lock: LoadedLock, runner: Runner, reporter: Reporter
) -> InstallFacts:
    """Return the facts with the GPUs for which binaries of an install with CUDA have code."""
    if lock.cuda() is None:
        return facts
    from envmgr.store.gpu_code import measure

    with reporter.stage(f"{install.entry} code for GPUs", unit="files"):
        codes = measure(install.path, runner.raise_if_cancelled)
    said = recipe.requires.compute_capability
    if codes and said and install.entry == lock.entry and not same_effect(codes, said):
        reporter.say(
            f"{lock.entry}: its binaries have code for {', '.join(codes)}; requires.compute_capability of its "
            "recipe says "
            f"{', '.join(said)}, and does not count from here on"
        )
    return facts.model_copy(update={"gpu_codes": codes})


def provenance(install: Install, recipe: Recipe, lock: LoadedLock, built: Built, site: Site) -> dict[str, Any]:
    """Return the origin of an install: user, host, entry, recipe, packages, tools, what was built on the way, time
    (UTC).
    """
    return {
        "install": str(install.entry),
        "entry": str(lock.entry),
        "recipe": recipe.model_dump(mode="json", by_alias=True),
        "lock_sha256": lock.sha256,
        "packages": dict(lock.packages),
        "site": site.name,
        "tools": {"envmgr": envmgr.__version__, "python": platform.python_version(), **built.tools},
        **({"made": [dict(each) for each in built.made]} if built.made else {}),
        "host": socket.gethostname(),
        "user": own_name(),
        "time": utc_now(),
    }


def compare_promised(install: Install, expected: Any, found: dict[str, str]) -> None:
    """Raise EnvmgrError `install-differs` if files differ from what the packages promise."""
    wrong = [
        f"{path}: {'missing' if path not in found else 'another sha256 than its package says'}"
        for path, digest in sorted(expected.items())
        if found.get(path) != digest
    ]
    if wrong:
        raise EnvmgrError(
            "install-differs",
            f"{len(wrong)} {'files' if len(wrong) > 1 else 'file'} of {install.entry} "
            f"{'differ' if len(wrong) > 1 else 'differs'} "
            "from what the packages promise",
            context=shortened(wrong, 10),
            hint="the file system or the cache is damaged: run a file system check, then build again",
        )


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
    folder = site.build_dir
    if (
        folder is not None
        and os.access(folder, os.F_OK)
        and not os.access(folder, os.W_OK | os.X_OK, effective_ids=True)
    ):
        yield EnvmgrError(
            "not-writable", f"{account.name} cannot write {folder}", hint=give_place(account.name, folder)
        )


def group_faults(site: Site, account: Account) -> Iterator[EnvmgrError]:
    """Yield what would keep `account` from giving folders to the site's group. A missing group is reported
    elsewhere.
    """
    with suppress(EnvmgrError):
        if site.policies.group is not None and account.uid and group_id(site.policies.group) not in account.groups():
            yield _group_not_theirs(account.name, site.prefix, site)


def _unwritable(folder: Path, user: str) -> Iterator[EnvmgrError]:
    """Yield an error if the effective user cannot write there."""
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        yield EnvmgrError(
            "not-writable",
            f"cannot write {folder}",
            context="it is mounted read-only"
            if os.statvfs(folder).f_flag & os.ST_RDONLY
            else f"it belongs to {user_name(folder.stat().st_uid)}, running as {user}",
            hint="run as the site's build user (as root, envmgr changes to it), or give this user the whole prefix",
        )


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


def hidden_by(environment: Iterable[EnvOp]) -> dict[str, str]:
    """Return command -> the program of its name, in a folder that these put on PATH; sorted."""
    return dict(sorted(_programs(environment)))


def _programs(environment: Iterable[EnvOp]) -> Iterator[tuple[str, str]]:
    for op in environment:
        for folder in op.value.split(op.separator) if op.name == "PATH" and op.kind != "unset" else ():
            with suppress(OSError):  # no folder: nothing lies there
                yield from ((path.name, str(path)) for path in Path(folder).iterdir() if path.name in COMMANDS)


def require_none_hidden(entry: Entry, environment: Iterable[EnvOp], recipe: Recipe, root: Path) -> None:
    """Raise EnvmgrError `commands-hidden` if the install at `root`, or the recipe itself, puts such commands on PATH.

    Commands that the recipe accepts are excluded: the names with which its reason begins, up to a colon.
    """
    accepted = named_in(recipe.accept.get(HIDDEN, ""))
    found = hidden_by((*environment, *recipe_changes(recipe, entry, str(root))))
    if wrong := {name: program for name, program in found.items() if name not in accepted}:
        line = f'accept: {{{HIDDEN}: "{", ".join(found)}: why"}}'
        raise EnvmgrError(
            "commands-hidden",
            f"{entry} hides commands of the system or of shells: {', '.join([*wrong][:10])}",
            context=shortened([*wrong.values()]),
            hint="leave out the package that brings them; or, where users shall have them, say so in "
            f"recipe.yaml: `{line}`",
        )
