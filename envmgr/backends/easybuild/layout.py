"""What a build of one item is given: its order, and a private folder with its easyconfig, sources and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envmgr.backends.easybuild.easyconfigs import EASYCONFIG, local_easyconfig, local_file, root_of, sum_of
from envmgr.backends.easybuild.folders import locks_folder, modules_folder
from envmgr.backends.easybuild.input import accept_eula_for
from envmgr.backends.easybuild.items import configuration_of
from envmgr.backends.easybuild.lock import EasyBuildLock, LockedItem
from envmgr.backends.easybuild.settings import easyconfig_folders
from envmgr.backends.easybuild.tool import EasyBuild
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import Lmod
from envmgr.store.prefix import Install
from envmgr.system.files import atomic_write, pretty_json
from envmgr.system.untrusted_files import copy_file


@dataclass(frozen=True, slots=True)
class Order:
    """All that a build of one item needs. `sources` maps a file's name to its place in the cache, checked.

    `names` maps `name/version` of everything in the lock to its module's name; `closure` are the installs that it runs with.
    """

    install: Install
    locked: LockedItem
    lock: EasyBuildLock
    names: Mapping[str, str]
    closure: Sequence[Install]
    sources: Mapping[str, Path]
    tool: EasyBuild
    lmod: Lmod
    site: Site


def lay_out(order: Order, folder: Path, jobs: int) -> Path:
    """The private folder's content; returns the easyconfig in it."""
    locked, install = order.locked, order.install
    for name in ("tmp", "build", "log", "repository", "home", "events"):
        (folder / name).mkdir()
    for source in locked.sources:
        place = folder / "sources" / (source.folder or locked.folder)
        place.mkdir(parents=True, exist_ok=True)
        (place / source.name).symlink_to(order.sources[source.name])
    easyconfig = _easyconfigs(order, folder / "easyconfigs")
    atomic_write(folder / "items.json", pretty_json(dict(order.names)))
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
        "include-module-naming-schemes": order.tool.inside / "envmgr_naming.py",
        "module-naming-scheme": "EnvmgrModuleNamingScheme",
        "fixed-installdir-naming-scheme": 0,
        "hooks": order.tool.inside / "envmgr_hooks.py",
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
    """As EasyBuild's configuration file has it."""
    return ",".join(value) if isinstance(value, list) else int(value) if isinstance(value, bool) else value


def _easyconfigs(order: Order, folder: Path) -> Path:
    """The easyconfig and the files that go with it, copied and held against the lock: what runs is what was locked."""
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
            hint="lock the entry again, or take the file back from git",
        )
    folder.mkdir(parents=True, exist_ok=True)
    copy_file(path, folder / name, EASYCONFIG, tree=root_of(path, site))
