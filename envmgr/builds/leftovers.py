"""Leftovers of killed runs, for any install. Each run that changes something removes them first."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

from envmgr.backends import all_backends
from envmgr.publish.records import published_installs
from envmgr.report import Reporter
from envmgr.store.dead_builds import clear_dead_rows, clear_kept_rows
from envmgr.store.jobtable import lives_elsewhere, remove_dead_holds
from envmgr.store.prefix import Install, Prefix
from envmgr.system.locks import try_file_lock
from envmgr.system.processes import host_mark
from envmgr.system.safe_paths import remove_below

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
                    published = published_installs(prefix) if published is None else published
                    if install.relative in published:
                        reporter.say(
                            f"warning: {path} has no manifest, and is published: `envmgr verify --repair` makes "
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
    if path.name.startswith(".staging-"):
        return path.name.removeprefix(".staging-")
    return None if path.with_name(f"{path.name}.manifest.json").exists() else path.name
