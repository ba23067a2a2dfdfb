"""The folders in which an install is made: beside its place, from where one rename makes it the install, or nothing
stays; and the private one in which sources are compiled, at the same path each time.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.catalog.site_file import is_plain_path
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.jobtable import leave_row, recorded
from envmgr.store.prefix import Install
from envmgr.store.tree import make_read_only
from envmgr.system.files import explain_os_error, group_id, remove_tree, sync_folder
from envmgr.system.locks import require_not_anothers
from envmgr.system.pythons import mark_pythons
from envmgr.system.run import Runner
from envmgr.system.safe_paths import empty_below, remove_below
from envmgr.system.scratch import folder_lock, temporary_files
from envmgr.system.usernames import own_home, own_name

BEGIN = "envmgr-build-"
_POLL = 0.1  # seconds


@dataclass(slots=True)
class StagedInstall:
    """An install that is being made in `folder`. `promised` is path -> sha256, as the packages promise their files."""

    install: Install
    site: Site
    marks: bool
    promised: dict[str, str] = field(default_factory=dict)
    landed: bool = False

    @property
    def folder(self) -> Path:
        """The folder to fill. The final path is `install.path`."""
        return self.install.staging

    def land(self) -> None:
        """Mark its Pythons, make it read-only and rename it to its place, where its programs must run before the
        manifest is written.
        """
        if self.marks:
            # The marks belong to the install: they are made before its tree digest is taken and its folders are closed.
            for mark in mark_pythons(self.folder):
                self.promised.pop(mark, None)  # a package's own file
        policies = self.site.policies
        # Read-only before the rename: nobody ever finds an install at its place that can still be changed.
        make_read_only(self.folder, group=group_id(policies.group), mask=policies.mask)
        require_not_anothers(self.install.lock)
        # One rename within one file system: a reader finds no install or the whole one.
        self.folder.rename(self.install.path)
        # The rename reaches the disk before the manifest, which says that the install exists.
        sync_folder(self.install.path.parent)
        self.landed = True


@contextmanager
def staged_install(install: Install, site: Site, *, marks: bool = True) -> Iterator[StagedInstall]:
    """Yield an install to be filled; it is landed at the end, unless the body has done so.

    On any failure neither staging nor a partial install stays. `marks`: its Pythons get the mark that protects them
    from pip. The lock of the install is held.

    Raises:
        EnvmgrError: `path-too-long`, `lock-lost`, and what `explain_os_error` raises.
    """
    install.check_length()
    clear(install)  # left by a kill, before the rename or between that and the manifest
    staged = StagedInstall(install, site, marks)
    try:
        with explain_os_error(install.staging):
            install.staging.parent.mkdir(parents=True, exist_ok=True)
            yield staged
            if not staged.landed:
                staged.land()
    # Ctrl-C and a full disk too: a half tree at this path would count as left by a kill at the next build.
    except BaseException:
        with suppress(OSError):  # the first fault is reported; the next run clears up
            clear(install)
            install.path.parent.rmdir()  # only an empty one goes
        raise


def clear(install: Install) -> None:
    """Remove what a build of it has made, or left: its lock is held.

    Raises EnvmgrError `lock-lost` where that is another run's by now.
    """
    require_not_anothers(install.lock)
    remove_below(install.prefix.root, install.staging)
    remove_below(install.prefix.root, install.path)


def work_folder(site: Site, install: Install) -> Path:
    """Return the folder to compile in: the same path each time, because paths of a build get into its results.

    In the folder for temporary files any user can take the name first, and would stop all builds. It is then below the
    user's own cache.
    """
    # A user's name may have spaces, which do not survive makefiles.
    name = f"{BEGIN}{own_name().replace(' ', '-')}"
    base = site.build_dir or temporary_files()
    if site.build_dir is None and _is_anothers(base / name):
        base = Path(own_home(os.environ.get("HOME"))) / ".cache" / "envmgr"
    return base / name / f"{install.entry.name}-{install.label}"


@contextmanager
def build_folder(install: Install, folder: Path, runner: Runner, reporter: Reporter) -> Iterator[None]:
    """Yield in an empty folder that no other user can write, and remove it at the end. A row in the job table stays if
    that fails. Its path has no prefix in it: a build of the same lock for another prefix is waited for.

    Raises EnvmgrError `build-folder` if another user made it, or if nothing can be compiled there.
    """
    if not is_plain_path(folder):
        raise EnvmgrError(
            "build-folder",
            f"nothing can be compiled in `{folder.parent}`",
            context="spaces, colons, quotes and shell characters do not survive makefiles",
            hint="name another place in site.yaml (build_dir), or in $TMPDIR",
        )
    with ExitStack() as lock:
        stays = False
        try:
            # The row comes first: a kill after that leaves a row that names the folder.
            with recorded(install, folder):
                with explain_os_error(folder):
                    _wait_for(install, folder, lock, runner, reporter)
                stays = True
                try:
                    yield
                finally:
                    with suppress(OSError):
                        remove_below(folder.parent, folder)
                        stays = False
        finally:
            with suppress(OSError, EnvmgrError):
                if stays:
                    leave_row(install, folder)
                if not _is_anothers(folder.parent):
                    folder.parent.rmdir()  # only an empty one goes


def _wait_for(install: Install, folder: Path, lock: ExitStack, runner: Runner, reporter: Reporter) -> None:
    told = False
    while not _take(folder, lock):
        if not told:
            told = True
            reporter.say(f"{install.entry}: waiting for another build of the same lock in {folder}, for another prefix")
        runner.raise_if_cancelled()
        time.sleep(_POLL)


def _take(folder: Path, stack: ExitStack) -> bool:
    """Make the folder, locked until `stack` ends; return False while another build has it."""
    while True:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_anothers(folder.parent):
            raise EnvmgrError(
                "build-folder",
                f"{folder.parent} can be changed by other users",
                context="software is compiled there: a user who can write it decides what is installed",
                hint="remove it, or name another place in site.yaml: build_dir",
            )
        # Another build may end at any of these steps, and remove its folder and the shared one: begin again.
        with suppress(FileNotFoundError):
            with suppress(FileExistsError):
                folder.mkdir()
            # No folder, or one that a dead build closed, even to its owner.
            if not is_own_folder(folder) or not os.access(folder, os.R_OK):
                remove_tree(folder)
                continue
            with ExitStack() as lock:
                if not lock.enter_context(folder_lock(folder)):
                    return False
                empty_below(folder.parent, folder, keep="", first="")  # what a dead build left
                stack.push(lock.pop_all())
                return True


def _is_anothers(folder: Path) -> bool:
    """Return whether another user made what lies there, or can write it."""
    try:
        # lstat: another user's link to a folder of ours must not pass as ours.
        status = folder.lstat()
    except FileNotFoundError:
        return False
    return status.st_uid != os.geteuid() or bool(status.st_mode & 0o022) or not stat.S_ISDIR(status.st_mode)


def is_own_folder(folder: Path) -> bool:
    """Return whether it is a folder of this user, and no link to one."""
    return folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.geteuid()
