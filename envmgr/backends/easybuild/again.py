"""An install that is built again: EasyBuild sees an empty place at its path, in a private mount namespace; nobody else sees it.

EasyBuild can only build where the install will lie, and there a damaged one lies, which programs may run from. What it makes
lands in the install's staging folder, and in the build's private one, and is exchanged for what lies there when it is whole.
"""

from __future__ import annotations

import stat
from pathlib import Path

from envmgr.backends.easybuild.folders import module_file
from envmgr.errors import EnvmgrError
from envmgr.store.landing import land
from envmgr.store.prefix import Install
from envmgr.system.files import atomic_write, read_regular
from envmgr.system.locks import file_lock
from envmgr.system.run import Runner
from envmgr.system.safe_paths import change, remove_below
from envmgr.system.sandbox import with_own_mounts
from envmgr.system.shelltext import script_text


def tree_of(install: Install) -> Path:
    """Where what a build makes is seen from outside, until it is lifted."""
    return install.path if install.replaces is None else install.staging / install.label


def module_of(install: Install, folder: Path) -> Path:
    """The same of EasyBuild's module; `folder` is the build's private one."""
    own = module_file(install)
    return own if install.replaces is None else folder / "modules" / own.name


def require_mounts(install: Install, runner: Runner) -> tuple[str, ...]:
    """The words before a command that has mounts of its own. EnvmgrError `repair-impossible` where they cannot be had."""
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


def stage(install: Install, folder: Path, runner: Runner) -> tuple[str, ...]:
    """Make the folders in which it is staged; the words before EasyBuild's command. The install's lock is held."""
    words = require_mounts(install, runner)
    modules = module_file(install).parent
    for each in (install.staging, folder / "modules"):
        each.mkdir()
    for file in modules.glob("*.lua"):
        if file.name != module_file(install).name:
            (folder / "modules" / file.name).write_bytes(read_regular(file))
    places = (install.path.parent, install.staging, modules, folder / "modules", install.label)
    return (*words, "/bin/sh", "-c", script_text(__file__, "mount.sh"), "sh", *map(str, places))


def lift(install: Install) -> Path:
    """What was built, as the whole staging folder, from which it can land; to be done while it can be written, as it gets another parent."""
    if install.replaces is None:
        return install.path
    aside = install.staging.with_name(f"{install.staging.name}.again")
    lock = install.prefix.locks / f"store-{install.entry.name}-{install.label}.again.lock"
    with file_lock(lock):  # or another run takes it for what a killed one has left
        tree_of(install).rename(aside)
        remove_below(install.prefix.root, install.staging)
        aside.rename(install.staging)
    return install.staging


def replace(install: Install, folder: Path) -> None:
    """What was built takes its place, with its module. Raises EnvmgrError as `land`."""
    module = module_of(install, folder)
    land(install)
    target = module_file(install)
    if target.is_dir() and not target.is_symlink():
        remove_below(install.prefix.root, target)
    atomic_write(target, module.read_bytes(), mode=0o444)
    change(target, group=module.stat().st_gid, kinds=(stat.S_ISREG,))
