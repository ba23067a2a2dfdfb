"""The place of a build: what earlier builds left there is cleared, and an install is rebuilt while programs run from
it.

EasyBuild can only build at the install's final path. For a rebuild it sees an empty folder there, in a mount namespace
of its own: other processes still see the damaged install. Its output goes to the install's staging folder and to the
build's private one. When it is complete, it is exchanged for the damaged install.
"""

from __future__ import annotations

import re
import stat
from contextlib import suppress
from pathlib import Path

from envmgr.backends.easybuild.items import lock_of, module_file, modules_folder
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.build_folders import clear, land
from envmgr.store.dead_builds import clear_dead_build, clear_kept_rows, end_processes_in
from envmgr.store.jobtable import lives_elsewhere
from envmgr.store.prefix import Install, Prefix
from envmgr.system.files import atomic_write, read_regular
from envmgr.system.locks import file_lock, try_file_lock
from envmgr.system.run import Runner
from envmgr.system.safe_paths import change, remove_below
from envmgr.system.sandbox import with_own_mounts
from envmgr.system.shelltext import script_text


def built_tree(install: Install) -> Path:
    """Return where the tree that a build makes is seen from outside, until it is lifted."""
    return install.path if install.replaces is None else install.staging / install.label


def built_module(install: Install, folder: Path) -> Path:
    """Return where EasyBuild's module of it is seen; `folder` is the build's private one."""
    own = module_file(install)
    return own if install.replaces is None else folder / "modules" / own.name


def require_mounts(install: Install, runner: Runner) -> tuple[str, ...]:
    """Return the words before a command that has its own mounts. Raise EnvmgrError `repair-impossible` without."""
    words, said = with_own_mounts(runner)
    if words is None:
        raise EnvmgrError(
            "repair-impossible",
            f"{install.entry} cannot be built again here: that needs mounts that no one else sees",
            context=said,
            hint="on a host where users may have user namespaces (`unshare --user --mount true`); "
            f"or, when nobody uses it: remove {install.manifest} and build the entry again",
        )
    return words


def stage_rebuild(install: Install, folder: Path, runner: Runner) -> tuple[str, ...]:
    """Make the folders in which it is staged, and return the words before EasyBuild's command.

    The caller holds the install's lock.
    """
    words = require_mounts(install, runner)
    modules = module_file(install).parent
    for each in (install.staging, folder / "modules"):
        each.mkdir()
    # The build sees this folder in place of the real one, and may load the other modules in it.
    for file in modules.glob("*.lua"):
        if file.name != module_file(install).name:
            (folder / "modules" / file.name).write_bytes(read_regular(file))
    places = (install.path.parent, install.staging, modules, folder / "modules", install.label)
    return (*words, "/bin/sh", "-c", script_text(__file__, "mount.sh"), "sh", *map(str, places))


def lift_tree(install: Install) -> Path:
    """Return the tree that was built, made the whole staging folder, from which it can land.

    It gets another parent, and so must still be writable.
    """
    if install.replaces is None:
        return install.path
    # The tree lies inside the staging folder that it replaces.
    aside = install.staging.with_name(f"{install.staging.name}.again")
    lock = install.prefix.locks / f"store-{install.entry.name}-{install.label}.again.lock"
    with file_lock(lock):  # otherwise another run takes it for what a killed one left
        built_tree(install).rename(aside)
        remove_below(install.prefix.root, install.staging)
        aside.rename(install.staging)
    return install.staging


def replace_install(install: Install, folder: Path) -> None:
    """Put what was built into its place, with its module. Raises EnvmgrError as `land`."""
    module = built_module(install, folder)
    land(install)
    target = module_file(install)
    # A rename cannot put a file in the place of a folder.
    if target.is_dir() and not target.is_symlink():
        remove_below(install.prefix.root, target)
    atomic_write(target, module.read_bytes(), mode=0o444)
    change(target, group=module.stat().st_gid, kinds=(stat.S_ISREG,))


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
    """Remove a half install and its module; of one that is built again only what is staged. Raise as `clear`."""
    clear(install)
    if install.replaces is None:
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
