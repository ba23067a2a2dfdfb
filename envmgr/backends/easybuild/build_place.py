"""The place of a build: what earlier builds left there is cleared."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from envmgr.backends.easybuild.items import lock_of, module_file, modules_folder
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.build_folders import clear
from envmgr.store.dead_builds import clear_dead_build, clear_kept_rows, end_processes_in
from envmgr.store.jobtable import lives_elsewhere
from envmgr.store.prefix import Install, Prefix
from envmgr.system.locks import try_file_lock
from envmgr.system.run import Runner
from envmgr.system.safe_paths import remove_below


def clear_leftovers(install: Install, runner: Runner, reporter: Reporter) -> None:
    """Clear what a dead build left: its processes here, its incomplete install, its module, EasyBuild's lock.

    The caller holds the install's lock.

    Raises:
        EnvmgrError: see `clear_dead_build`; `easybuild-locked`, for a lock that no build of envmgr left.
    """
    clear_dead_build(install, runner, reporter, own=lambda each: remove_below(each.prefix.root, lock_of(each)))
    if (lock := lock_of(install)).exists():
        raise EnvmgrError(
            "easybuild-locked",
            f"EasyBuild is building {install.entry}, or died while it did",
            context=[str(lock), "no build of envmgr left it: it is not in the job table"],
            hint=f"make sure that no `eb` runs for it, then: rmdir {lock}",
        )
    clear_kept_rows(install.prefix, reporter)
    remove_half(install)


def clean_modules(prefix: Prefix, reporter: Reporter) -> None:
    """Remove EasyBuild's modules of installs that are not there: a `gc` or a build was killed."""
    for path in sorted(modules_folder(prefix).glob("*/*.lua")):
        if not re.fullmatch(r".+-[0-9a-f]{8}", path.stem):
            continue
        install = prefix.install_at(f"store/{path.parent.name}/{path.stem}")
        if install.manifest.exists():
            continue
        with try_file_lock(install.lock) as free:
            # Checked again under the lock: a build may have finished meanwhile.
            if free and not install.manifest.exists() and not lives_elsewhere(install):
                reporter.log(f"removing {path}, whose install is gone")
                with suppress(OSError):
                    remove_below(prefix.root, path)


def remove_half(install: Install) -> None:
    """Remove a half install and its module. Raise as `clear`."""
    clear(install)
    remove_below(install.prefix.root, module_file(install))


def remove_lock(install: Install) -> None:
    """Remove the lock that a killed EasyBuild leaves; it was our own, and its processes have all ended."""
    with suppress(OSError):
        remove_below(install.prefix.root, lock_of(install))


def end_daemons(install: Install, folder: Path, reporter: Reporter) -> None:
    """End servers that some builds start in sessions of their own, as bazel does: they end with the build."""
    with suppress(EnvmgrError):  # the error of the build itself matters more
        if ended := end_processes_in(str(folder)):
            reporter.log(f"{install.entry}: ended {ended} processes that the build left running")
