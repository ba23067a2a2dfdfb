"""Rebuilding of an install in its place: EasyBuild sees an empty folder there, in a private mount namespace.

EasyBuild can only build at the install's final path, where a damaged install lies from which programs may run. Its
output goes to the install's staging folder and to the build's private one. When it is complete, it is exchanged for the
damaged install. Other processes do not see the empty folder.
"""

from __future__ import annotations

import stat
from pathlib import Path

from envmgr.backends.easybuild.items import module_file
from envmgr.errors import EnvmgrError
from envmgr.store.build_folders import land
from envmgr.store.prefix import Install
from envmgr.system.files import atomic_write, read_regular
from envmgr.system.locks import file_lock
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
    if target.is_dir() and not target.is_symlink():
        remove_below(install.prefix.root, target)
    atomic_write(target, module.read_bytes(), mode=0o444)
    change(target, group=module.stat().st_gid, kinds=(stat.S_ISREG,))
