"""The order of one item's build, and the private folder with its easyconfig, sources and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envmgr.backends.easybuild.easyconfigs import EASYCONFIG, local_easyconfig, local_file, root_of, sum_of
from envmgr.backends.easybuild.installation import INSIDE, EasyBuild
from envmgr.backends.easybuild.items import configuration_of, locks_folder, module_name, modules_folder, runs_with
from envmgr.backends.easybuild.lock import EasyBuildLock, LockedItem
from envmgr.backends.easybuild.settings import accept_eula_for, easyconfig_folders
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import Lmod
from envmgr.store.prefix import Install, Item
from envmgr.system.files import atomic_write, pretty_json
from envmgr.system.untrusted_files import copy_file


@dataclass(frozen=True, slots=True)
class Order:
    """All that a build of one item needs. `items` are those of the whole lock.

    `sources` maps a file's name to its place in the cache, checked.
    """

    install: Install
    locked: LockedItem
    lock: EasyBuildLock
    items: Sequence[Item]
    sources: Mapping[str, Path]
    tool: EasyBuild
    lmod: Lmod
    site: Site

    @property
    def names(self) -> dict[str, str]:
        """`name/version` of each item -> its module's name, which is that of its folder in the store."""
        return {str(item.install.entry): module_name(item.install) for item in self.items}

    @property
    def closure(self) -> list[Install]:
        """The installs that it runs with, in build order."""
        return runs_with(self.items, self.install)


def lay_out(order: Order, folder: Path, jobs: int) -> Path:
    """Write the private folder's content, and return the easyconfig in it."""
    locked, install = order.locked, order.install
    for name in ("tmp", "build", "log", "repository", "home", "events"):
        (folder / name).mkdir()
    for source in locked.sources:
        place = folder / "sources" / (source.folder or locked.folder)
        place.mkdir(parents=True, exist_ok=True)
        (place / source.name).symlink_to(order.sources[source.name])
    easyconfig = _easyconfigs(order, folder / "easyconfigs")
    atomic_write(folder / "items.json", pretty_json(order.names))
    settings = configuration_of(order.lock, locked, order.site.cpu_level)
    rows = {
        "installpath-software": install.prefix.store,
        "installpath-modules": modules_folder(install.prefix),
        "suffix-modules-path": "",
        "subdir-modules": ".",
        "subdir-software": ".",
        "locks-dir": locks_folder(install.prefix),
        "buildpath": folder / "build",
        "sourcepath": folder / "sources",
        "repositorypath": folder / "repository",
        "tmp-logdir": folder / "log",
        "tmpdir": folder / "tmp",
        "robot-paths": folder / "easyconfigs",
        "include-module-naming-schemes": INSIDE / "envmgr_naming.py",
        "module-naming-scheme": "EnvmgrModuleNamingScheme",
        "fixed-installdir-naming-scheme": 0,
        "hooks": INSIDE / "envmgr_hooks.py",
        "parallel": jobs,
        "local-var-naming-check": "error",
        **{name: _said(value) for name, value in settings.items()},
        "accept-eula-for": accept_eula_for(order.lock.accept_eula),
        "umask": "022",
        "show-progress-bar": 0,
        "trace": 0,
    }
    lines = [f"{key}={str(value).replace('%', '%%')}" for key, value in rows.items() if value != ""]
    atomic_write(folder / "easybuild.cfg", "[config]\nsuffix-modules-path=\n" + "\n".join(lines) + "\n")
    return easyconfig


def _said(value: object) -> object:
    """Return the value as EasyBuild's configuration file has it."""
    if isinstance(value, list):
        return ",".join(value)
    return int(value) if isinstance(value, bool) else value


def _easyconfigs(order: Order, folder: Path) -> Path:
    """Copy the easyconfig and the files that go with it, compared with the lock: what runs is what was locked."""
    locked = order.locked
    roots = [*easyconfig_folders(order.site), order.tool.easyconfigs]
    if locked.origin == "catalog":
        easyconfig = local_easyconfig(locked, order.site)
    else:
        easyconfig = order.tool.easyconfigs / locked.folder / locked.easyconfig
    _copy(locked.easyconfig, locked.sha256, easyconfig, folder / locked.folder, order.site)
    for file in locked.beside:
        found = local_file(locked, file, easyconfig, roots)
        _copy(file.name, file.sha256, found, folder / (file.folder or locked.folder), order.site)
    return folder / locked.folder / locked.easyconfig


def _copy(name: str, sha256: str, path: Path | None, folder: Path, site: Site) -> None:
    if path is None or not path.is_file() or sum_of(path, site) != sha256:
        place = "/".join((*folder.parts[-2:], name))
        raise EnvmgrError(
            "easyconfig-differs",
            f"{name} is not what the lock says",
            context=[str(path or f"no folder of easyconfigs has {place}"), f"sha256 {sha256} was locked"],
            hint="lock the entry again, or restore the file from git",
        )
    folder.mkdir(parents=True, exist_ok=True)
    copy_file(path, folder / name, EASYCONFIG, tree=root_of(path, site))
