"""Make sure that an install is there: under its lock, with space for it, checked, with its manifest written last."""

from __future__ import annotations

import getpass
import os
import platform
import re
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envmgr
from envmgr.backends import Backend, LoadedLock
from envmgr.errors import EnvmgrError
from envmgr.files import explain_os_error, file_lock, free_bytes, group_id, megabytes, remove_tree, try_file_lock
from envmgr.jobtable import left_row, lives_perhaps
from envmgr.manifest import InstallFacts, differences, make_manifest, read_manifest, write_manifest
from envmgr.recipe import Recipe
from envmgr.report import Reporter
from envmgr.run import Runner
from envmgr.site import Site
from envmgr.store import Install, Item, Prefix


@dataclass(frozen=True, slots=True)
class Ensured:
    """An install that is there. `tree` is its tree digest, `seconds` wall-clock."""

    install: Install
    built: bool
    facts: InstallFacts
    tree: str
    seconds: float


def ensure_install(
    backend: Backend,
    recipe: Recipe,
    lock: LoadedLock,
    item: Item,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    jobs: int,
) -> Ensured:
    """Build the install, or reuse what is there. A second builder of the same install waits, and reuses.

    Raises:
        EnvmgrError: `disk-full` before the first byte, whatever the backend raises, `install-differs`; nothing is left behind.
    """
    install = item.install
    install.check_length()
    start = time.monotonic()

    def waiting(holder: str) -> None:
        reporter.say(f"{install.entry}: waiting for {holder}, which builds it")

    with explain_os_error(install.lock), file_lock(install.lock, on_wait=waiting, check=runner.raise_if_cancelled):
        install.check_digest()
        if install.exists():
            manifest = read_manifest(install.manifest)
            return Ensured(install, False, manifest.facts, manifest.tree, time.monotonic() - start)
        reporter.log(f"{install.entry}: building {install.path}")
        realised = backend.realise(lock, item, site, runner, reporter, jobs=jobs)
        try:
            with reporter.stage(f"{install.entry} check", unit="files"), explain_os_error(install.manifest):
                manifest = make_manifest(
                    install.path,
                    install.digest,
                    realised.facts,
                    provenance(install, recipe, lock, realised.tools, site),
                    mask=site.policies.mask,
                    workers=max(2, jobs),
                )
                _compare(install, realised.expected, {p.path: p.sha256 for p in manifest.paths})
                write_manifest(install.manifest, manifest)
        except BaseException:
            with suppress(OSError):  # what went wrong first is what is told; the next run cleans up
                remove_tree(install.path)
            raise
    return Ensured(install, True, realised.facts, manifest.tree, time.monotonic() - start)


def verify_install(install: Install, reporter: Reporter) -> list[str]:
    """Hash the install again and compare it with its manifest (invariant 5); differences as readable lines."""
    with reporter.stage(f"{install.entry} verify", unit="files"):
        return differences(install.path, read_manifest(install.manifest))


def provenance(
    install: Install, recipe: Recipe, lock: LoadedLock, tools: Mapping[str, str], site: Site
) -> dict[str, Any]:
    """Who made an install, for which entry, from what, with which tools, when (UTC)."""
    return {
        "install": str(install.entry),
        "entry": str(lock.entry),
        "recipe": recipe.model_dump(mode="json", by_alias=True),
        "lock_sha256": lock.sha256,
        "packages": dict(lock.packages),
        "site": site.name,
        "tools": {"envmgr": envmgr.__version__, "python": platform.python_version(), **tools},
        "host": socket.gethostname(),
        "user": getpass.getuser(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def clean_leftovers(prefix: Prefix, reporter: Reporter) -> list[str]:
    """Remove what killed builds left: staging folders, trees without a manifest, half-written manifests and downloads.

    Returns the store's, relative to it. What belongs to a lock that is held belongs to a build that is alive.
    """
    for part in (p for cache in (prefix.conda_cache, prefix.source_cache) for p in cache.glob("*/.*.part")):
        with try_file_lock(part) as free:
            if free:
                part.unlink(missing_ok=True)
    removed = []
    for name_folder in sorted(prefix.store.iterdir()) if prefix.store.is_dir() else ():
        for path in sorted(name_folder.iterdir()) if name_folder.is_dir() else ():
            label = _leftover_of(path)
            if label is None:
                continue
            with try_file_lock(prefix.locks / f"store-{name_folder.name}-{label}.lock") as free:
                if not free or _leftover_of(path) is None:  # looked at again under the lock: it may be finished by now
                    continue
                install = prefix.install_at(f"store/{name_folder.name}/{label}")
                if (row := left_row(install)) and row.host != socket.gethostname() and lives_perhaps(install):
                    continue  # another node's build, on a file system that keeps locks to each node
                reporter.log(f"removing {path}, left by a build that was killed")
                try:
                    remove_tree(path)
                    removed.append(str(path.relative_to(prefix.store)))
                except OSError as error:  # in nobody's way but its own entry's
                    reporter.say(f"warning: cannot remove {path}, left by a build that was killed: {error.strerror}")
    return removed


def _leftover_of(path: Path) -> str | None:
    """The label of the install that `path` is an unfinished part of; None when it is finished, or gone."""
    if match := re.fullmatch(r"\.(.+)\.manifest\.json\.\d+\.\d+\.tmp", path.name):
        return match[1] if path.exists() else None
    if not path.is_dir():
        return None
    if path.name.startswith(".staging-"):
        return path.name.removeprefix(".staging-")
    return None if path.with_name(f"{path.name}.manifest.json").exists() else path.name


def _compare(install: Install, expected: Any, found: dict[str, str]) -> None:
    wrong = [
        f"{path}: {'missing' if path not in found else 'another sha256 than its package says'}"
        for path, digest in sorted(expected.items())
        if found.get(path) != digest
    ]
    if wrong:
        more = [f"and {len(wrong) - 10} more"] if len(wrong) > 10 else []
        raise EnvmgrError(
            "install-differs",
            f"{len(wrong)} {'files' if len(wrong) > 1 else 'file'} of {install.entry} {'differ' if len(wrong) > 1 else 'differs'} "
            "from what the packages promise",
            context=[*wrong[:10], *more],
            hint="the file system or the cache is damaged: run a file system check, then build again",
        )


def require_space(locks: Sequence[LoadedLock], site: Site) -> None:
    """Before anything is built: room for all of it, by the sizes that the locks have. EnvmgrError `disk-full`."""
    free = free_bytes(site.prefix)
    download = sum(lock.download or 0 for lock in locks)
    unpacked = sum(lock.installed or 0 for lock in locks)
    needed = download + unpacked + site.policies.min_free
    if locks and free < needed:
        names = ", ".join(str(lock.entry) for lock in locks)
        raise EnvmgrError(
            "disk-full",
            f"{names} needs {megabytes(needed)} under {site.prefix}, {megabytes(free)} are free",
            context=f"download {megabytes(download)}, install about {megabytes(unpacked)}, "
            f"policies.min_free {megabytes(site.policies.min_free)}",
            hint="free some space (`envmgr gc` removes old generations and unused installs), then run the same command again",
        )


def can_write(site: Site) -> None:
    """Make the prefix and its first folders as the site's policies say, or raise before any work is done.

    Where the site names a group, the folders carry it and hand it on (setgid): its members reach the modules whatever the
    umask. Folders that are there are looked at too: a run as another user may have made one of them.

    Raises:
        EnvmgrError: `not-writable`, `group-not-yours`, `unknown-group`.
    """
    prefix = Prefix(site.prefix)
    group = group_id(site.policies.group)
    caches = (prefix.conda_cache, prefix.source_cache)
    for folder in (prefix.root, prefix.store, prefix.generations, *caches, prefix.locks, prefix.logs):
        with explain_os_error(folder):
            new = not folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise EnvmgrError(
                "not-writable",
                f"cannot write {folder}",
                context="it is mounted read-only"
                if os.statvfs(folder).f_flag & os.ST_RDONLY
                else f"it belongs to {_owner(folder)}, running as {getpass.getuser()}",
                hint="run as the site's build user (as root, envmgr changes to it), or give this user the whole prefix",
            )
        if group is not None and (new or folder.stat().st_gid != group):
            _give_to_group(folder, group, site)


def _give_to_group(folder: Path, group: int, site: Site) -> None:
    try:
        os.chown(folder, -1, group)
        folder.chmod(0o2777 & ~site.policies.mask)
    except PermissionError:
        raise EnvmgrError(
            "group-not-yours",
            f"{getpass.getuser()} cannot give {folder} to the group {site.policies.group}",
            context="policies.group in site.yaml",
            hint=f"make the build user a member: usermod -aG {site.policies.group} {getpass.getuser()}",
        ) from None


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:
        return f"uid {path.stat().st_uid}"
