"""What a build of one item is given: its order, and a private folder with its easyconfig, sources and settings."""

from __future__ import annotations

import getpass
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from envmgr.backends.easybuild.easyconfigs import local_easyconfig, local_file
from envmgr.backends.easybuild.input import accept_eula_for, configuration
from envmgr.backends.easybuild.leftovers import lock_folder
from envmgr.backends.easybuild.lock import EasyBuildLock, LockedItem
from envmgr.backends.easybuild.tool import EasyBuild
from envmgr.catalog.site import Site, is_plain_path
from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import Lmod
from envmgr.store.prefix import Install, Item
from envmgr.system.files import atomic_write, explain_os_error, pretty_json, remove_tree, sha256_file


@dataclass(frozen=True, slots=True)
class Order:
    """All that a build of one item needs. `sources` maps a file's name to its place in the cache, checked.

    `names` maps `name/version` of everything in the lock to its module's name; `closure` are the installs that it runs with.
    """

    item: Item
    lock: EasyBuildLock
    names: Mapping[str, str]
    closure: Sequence[Install]
    sources: Mapping[str, Path]
    tool: EasyBuild
    lmod: Lmod
    site: Site

    @property
    def install(self) -> Install:
        return self.item.install

    @property
    def locked(self) -> LockedItem:
        assert isinstance(self.item.data, LockedItem)
        return self.item.data


def work_folder(site: Site, install: Install) -> Path:
    """Where it is compiled: the same path each time, as paths of a build get into what is built."""
    base = site.build_dir or Path(tempfile.gettempdir())
    return base / f"envmgr-build-{getpass.getuser()}" / f"{install.entry.name}-{install.label}"


@contextmanager
def private_folder(folder: Path) -> Iterator[None]:
    """An empty folder that nobody else can write, gone at the end.

    EnvmgrError `build-folder` where somebody else made it, or where nothing can be compiled.
    """
    if not is_plain_path(folder):
        raise EnvmgrError(
            "build-folder", f"nothing can be compiled in `{folder.parent}`",
            context="spaces, colons, quotes and shell characters do not survive makefiles",
            hint="name another place in site.yaml (build_dir), or in $TMPDIR",
        )  # fmt: skip
    with explain_os_error(folder):
        for last in (False, False, True):
            try:
                _make_private(folder)
                break
            except FileNotFoundError:  # a build beside us ended, and removed the folder that we share
                if last:
                    raise
    try:
        yield
    finally:
        with suppress(OSError):
            remove_tree(folder)
            folder.parent.rmdir()


def _make_private(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.parent.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022 or folder.parent.is_symlink():
        raise EnvmgrError(
            "build-folder", f"{folder.parent} is not ours alone",
            context="software is compiled there: whoever can write it decides what is installed",
            hint="remove it, or name another place in site.yaml: build_dir",
        )  # fmt: skip
    remove_tree(folder)
    folder.mkdir()


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
    settings = configuration(order.lock.rpath, order.lock.filter_deps, order.site.cpu_level)
    rows = {
        "installpath-software": install.prefix.store,
        "installpath-modules": install.prefix.easybuild_modules,
        "suffix-modules-path": "",
        "subdir-modules": ".",
        "subdir-software": ".",
        "locks-dir": lock_folder(install),
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
        "optarch": settings["optarch"],
        "rpath": int(order.lock.rpath),
        "filter-deps": ",".join(order.lock.filter_deps),
        "accept-eula-for": accept_eula_for(order.lock.accept_eula),
        "umask": "022",
        "show-progress-bar": 0,
        "trace": 0,
    }
    lines = [f"{key}={str(value).replace('%', '%%')}" for key, value in rows.items() if value != ""]
    atomic_write(folder / "easybuild.cfg", "[config]\nsuffix-modules-path=\n" + "\n".join(lines) + "\n")
    return easyconfig


def _easyconfigs(order: Order, folder: Path) -> Path:
    """The easyconfig and the files that go with it, copied and held against the lock: what runs is what was locked."""
    locked = order.locked
    roots = [*order.site.easyconfigs, order.tool.easyconfigs]
    if locked.origin == "catalog":
        easyconfig = local_easyconfig(locked, order.site)
    else:
        easyconfig = order.tool.easyconfigs / locked.folder / locked.easyconfig
    _copy(locked.easyconfig, locked.sha256, easyconfig, folder / locked.folder)
    for file in locked.beside:
        found = local_file(locked, file, easyconfig, roots)
        _copy(file.name, file.sha256, found, folder / (file.folder or locked.folder))
    return folder / locked.folder / locked.easyconfig


def _copy(name: str, sha256: str, path: Path | None, folder: Path) -> None:
    if path is None or not path.is_file() or sha256_file(path) != sha256:
        place = "/".join((*folder.parts[-2:], name))
        raise EnvmgrError(
            "easyconfig-differs", f"{name} is not what the lock says",
            context=[str(path or f"no folder of easyconfigs has {place}"), f"sha256 {sha256} was locked"],
            hint="lock the entry again, or take the file back from git",
        )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, folder / name)
