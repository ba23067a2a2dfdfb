"""An install made again at its own path, where no other process sees it; then exchanged for a damaged one.

A backend writes the final path into files, and may run them there. So the whole build is a process with mounts of its
own: it sees the store's folder of this name without this install, and so each other folder in which files of it lie.
Programs that run from the install in place see nothing of that.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import envmgr
from envmgr.backends import LoadedEntry
from envmgr.builds.schedule import Work
from envmgr.builds.slurm.ends import tail
from envmgr.builds.slurm.folder import read_answer, write_request
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, ending
from envmgr.report import Reporter
from envmgr.store.manifest import Manifest, read_manifest
from envmgr.store.prefix import Install, Item
from envmgr.store.tree import make_read_only
from envmgr.system.child import OWN_SOURCE, python_module
from envmgr.system.files import atomic_write, exchange, explain_os_error, group_id, read_regular, sync_folder
from envmgr.system.run import Runner
from envmgr.system.safe_paths import change, remove_below
from envmgr.system.sandbox import with_own_mounts
from envmgr.system.scratch import scratch_folder
from envmgr.system.shelltext import script_text


@dataclass(frozen=True, slots=True)
class AgainWork:
    """An install to make again, by the entry that it is made by. `damage` is how it differs from its manifest."""

    made_by: LoadedEntry
    item: Item
    damage: tuple[str, ...]

    @property
    def install(self) -> Install:
        return self.item.install


@dataclass(frozen=True, slots=True)
class MadeAgain:
    """An install that was made, and where it lies: its tree, its manifest, its files elsewhere by their places."""

    manifest: Manifest
    tree: Path
    manifest_file: Path
    extra: dict[Path, Path]


def require_own_mounts(work: AgainWork, runner: Runner) -> tuple[str, ...]:
    """Return the words before a command with mounts of its own. Raise EnvmgrError `again-impossible` without, and where
    an image lies over the install.
    """
    install, entry = work.install, work.made_by.lock.entry
    if install.is_covered():
        raise EnvmgrError(
            "again-impossible",
            f"an image of {install.entry} is mounted over it on this host",
            context=str(install.path),
            hint=f"`envmgr stage --remove {entry} --nodes {socket.gethostname()}` here, or run it on another host",
        )
    words, said = with_own_mounts(runner)
    if words is None:
        raise EnvmgrError(
            "again-impossible",
            f"{install.entry} cannot be built again here: that needs mounts that no one else sees",
            context=said,
            hint="run it as root, or on a host where users may have user namespaces (`unshare --user --mount true`)",
        )
    return words


@contextmanager
def made_again(
    work: AgainWork, folder: Path, site: Site, runner: Runner, reporter: Reporter, *, jobs: int, sound: Collection[str]
) -> Iterator[MadeAgain]:
    """Make the install at its own path, unseen, and yield what was made. It lies in `folder`, which is removed at the
    end. `sound` are installs below it that were looked at. The caller holds the install's lock.

    Raises:
        EnvmgrError: `again-impossible`, `worker-died`; any error of the build. Nothing but `folder` was changed.
    """
    install, root = work.install, work.install.prefix.root
    words = require_own_mounts(work, runner)
    beside = work.made_by.lock.backend.extra_files(install)
    # The store's folder comes last: once something lies over it, `folder` cannot be seen.
    places = dict.fromkeys([install.prefix.locks, *(file.parent for file in beside), install.path.parent])
    staged = {place: folder / str(number) for number, place in enumerate(places)}
    try:
        with explain_os_error(folder):
            remove_below(root, folder)  # of a run that was killed
            for place, each in staged.items():
                place.mkdir(parents=True, exist_ok=True)
                each.mkdir(parents=True)
        pairs = (str(path) for pair in staged.items() for path in pair)
        mounts = (*words, "/bin/sh", "-c", script_text(__file__, "mount.sh"), "sh", install.label, *pairs, "--")
        _build(work, mounts, site, runner, reporter, jobs, sound)
        own = staged[install.path.parent]
        manifest = own / install.manifest.name
        extra = {file: staged[file.parent] / file.name for file in beside}
        yield MadeAgain(read_manifest(manifest), own / install.label, manifest, extra)
    finally:
        with suppress(OSError):  # the next run removes it
            remove_below(root, folder)


def _build(
    work: AgainWork,
    mounts: tuple[str, ...],
    site: Site,
    runner: Runner,
    reporter: Reporter,
    jobs: int,
    sound: Collection[str],
) -> None:
    """Build as a job of Slurm does: a process that gets one request and answers it."""
    # A user namespace has only one group: who exchanges the install gives it the site's.
    site = site.model_copy(update={"policies": site.policies.model_copy(update={"group": None})})
    asked = Work(work.made_by.recipe, work.made_by.lock, work.item)
    with scratch_folder("again") as own:
        request, output = own / "request.json", own / "output"
        write_request(own, asked, work.made_by.folder, site, envmgr.__version__, made=sound, jobs=jobs)
        # Its words go to a file, from which they are shown as it runs.
        job: tuple[str | Path, ...] = ("/bin/sh", "-c", 'exec "$@" >"$0" 2>&1', output, *python_module("envmgr"))
        with reporter.stage(f"{work.install.entry} again") as stage:

            def tick() -> None:
                stage.update(0, detail="".join(tail(output)[-1:])[:60])

            argv: list[str | Path] = [*mounts, *job, "_build-item", request]
            done = runner.run(argv, env={**os.environ, **OWN_SOURCE}, check=False, on_tick=tick)
        with suppress(OSError):
            reporter.log(output.read_text(encoding="utf-8", errors="backslashreplace"))
        answer = read_answer(request)
    if answer is None:
        raise EnvmgrError(
            "worker-died",
            f"the build of {work.install.entry} {ending(done.returncode)} before it was done",
            context=done.stderr.strip().splitlines()[-5:],
            hint="run the same command again: what was downloaded is kept",
        )
    if answer.error is not None:
        raise answer.error.as_error()


def exchange_install(install: Install, made: MadeAgain, site: Site, known: Manifest | None) -> None:
    """Put what was made into its place, by renames: no reader finds half a tree, and a full disk stops none of them.
    The manifest comes last, unless it is `known` to be that of the new tree, too. Under the install's lock.
    """
    root, group = install.prefix.root, group_id(site.policies.group)
    with explain_os_error(install.path):
        remove_below(root, install.staging)
        # A folder that gets another parent must be writable; only in one folder two can be exchanged that are not.
        change(made.tree, add=0o200)
        made.tree.rename(install.staging)
        make_read_only(install.staging, group=group, mask=site.policies.mask if known is None else known.mask)
        # Both trees change places at once: the path always leads to a whole install, also for programs that start now.
        exchange(install.staging, install.path)
        for place, file in made.extra.items():
            if place.is_dir() and not place.is_symlink():  # a rename cannot put a file in the place of a folder
                remove_below(root, place)
            change(file, group=group, mode=0o444, kinds=(stat.S_ISREG,))
            file.replace(place)
        if known is None:
            made.manifest_file.replace(install.manifest)
        elif install.manifest.lstat().st_uid != os.geteuid():  # to whom all of an install belongs
            atomic_write(install.manifest, read_regular(install.manifest), mode=0o444)
        sync_folder(install.path.parent)
    # Programs that run from the old tree keep the files that they have open. Another user's files may stay: the install
    # is whole, and the next build reports what it cannot remove.
    with suppress(OSError):
        remove_below(root, install.staging)
