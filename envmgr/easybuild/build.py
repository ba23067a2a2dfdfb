"""One store item: its files, one `eb` of its own, what it made, and what its module says."""

from __future__ import annotations

import getpass
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from envmgr.easybuild.easyconfigs import local_easyconfig
from envmgr.easybuild.events import Events
from envmgr.easybuild.failures import explain
from envmgr.easybuild.flat import flat_facts
from envmgr.easybuild.input import configuration
from envmgr.easybuild.jobtable import end_processes_in, is_alive, left_row, recorded, row_path
from envmgr.easybuild.lock import EasyBuildLock, LockedItem
from envmgr.easybuild.tool import EasyBuild
from envmgr.errors import EnvmgrError
from envmgr.files import (
    atomic_write,
    explain_os_error,
    group_id,
    pretty_json,
    remove_tree,
    sha256_file,
    sync_file_system,
)
from envmgr.lmod import Lmod
from envmgr.manifest import InstallFacts
from envmgr.report import Reporter
from envmgr.run import Completed, Runner
from envmgr.site import Site
from envmgr.store import Install, Item
from envmgr.tree import make_read_only

_EPOCH = "1577836800"  # 2020-01-01: what programs that write the time of a build write instead


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


def build_item(order: Order, runner: Runner, reporter: Reporter, *, jobs: int) -> InstallFacts:
    """Build the item in place, read-only at the end. On any failure neither the install nor its module stays.

    Raises:
        EnvmgrError: see `failures.explain`; `easyconfig-differs`; `easybuild-locked`; `disk-full`; Interrupted.
    """
    install = order.install
    folder = _work_folder(order.site, install)
    with explain_os_error(install.path):
        _clear(install, reporter)
        for each in (install.path.parent, install.easybuild_module.parent, _lock_folder(install)):
            each.mkdir(parents=True, exist_ok=True)
    with _private_folder(folder), recorded(install, folder):
        try:
            with explain_os_error(folder):
                easyconfig = _lay_out(order, folder, jobs)
            _run(order, folder, easyconfig, runner, reporter)
            with explain_os_error(install.path):
                _finish(order)
            return flat_facts(install, order.closure, order.lmod)
        except BaseException:
            with suppress(OSError):  # what went wrong first is what is told; the next run cleans up
                _remove(install)
                install.path.parent.rmdir()  # only an empty one goes
            raise


def _work_folder(site: Site, install: Install) -> Path:
    """Where it is compiled: the same path each time, as paths of a build get into what is built."""
    base = site.build_dir or Path(tempfile.gettempdir())
    return base / f"envmgr-build-{getpass.getuser()}" / f"{install.entry.name}-{install.label}"


@contextmanager
def _private_folder(folder: Path) -> Iterator[None]:
    """An empty folder that nobody else can write, gone at the end. EnvmgrError `build-folder` where somebody else made it."""
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


def _clear(install: Install, reporter: Reporter) -> None:
    """What a build that died left: its processes here, its half install, its module, EasyBuild's lock. We hold our own lock.

    Raises:
        EnvmgrError: `easybuild-locked`, for a lock that no build of ours left.
    """
    row = left_row(install)
    if row is not None and not is_alive(row):
        if ended := end_processes_in(row.work):
            processes = "process" if ended == 1 else "processes"
            reporter.say(f"{install.entry}: ended {ended} {processes} of a build that was killed")
        reporter.log(f"{install.entry}: {row_path(install)} is of a build that died")
        remove_tree(_lock_of(install))
        row_path(install).unlink(missing_ok=True)
    if (lock := _lock_of(install)).exists():
        raise EnvmgrError(
            "easybuild-locked", f"EasyBuild is building {install.entry}, or died of it",
            context=[str(lock), "no build of envmgr left it: it is not in the job table"],
            hint=f"make sure that no `eb` runs for it, then: rmdir {lock}",
        )  # fmt: skip
    _remove(install)


def _remove(install: Install) -> None:
    remove_tree(install.path)
    install.easybuild_module.unlink(missing_ok=True)


def _lock_folder(install: Install) -> Path:
    return install.prefix.jobs / "easybuild-locks"


def _lock_of(install: Install) -> Path:
    """EasyBuild names its lock by the install's path. Source: easybuild-framework, `create_lock`."""
    return _lock_folder(install) / (str(install.path).replace("/", "_") + ".lock")


def _remove_lock(install: Install) -> None:
    """EasyBuild, killed, leaves it; it was our own EasyBuild, whose processes have all ended."""
    with suppress(OSError):
        remove_tree(_lock_of(install))


def _lay_out(order: Order, folder: Path, jobs: int) -> Path:
    """The private folder's content; returns the easyconfig in it."""
    locked, install = order.locked, order.install
    for name in ("tmp", "build", "log", "repository", "home", "events"):
        (folder / name).mkdir()
    sources = folder / "sources" / locked.folder
    sources.mkdir(parents=True)
    for name, path in order.sources.items():
        (sources / name).symlink_to(path)
    easyconfig = _easyconfig(order, folder / "easyconfigs" / locked.folder)
    atomic_write(folder / "items.json", pretty_json(dict(order.names)))
    settings = configuration(order.lock.rpath, order.lock.filter_deps, order.site.cpu_level)
    rows = {
        "installpath-software": install.prefix.store,
        "installpath-modules": install.prefix.easybuild_modules,
        "suffix-modules-path": "",
        "subdir-modules": ".",
        "subdir-software": ".",
        "locks-dir": _lock_folder(install),
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
        "accept-eula-for": ",".join(order.lock.accept_eula),
        "umask": "022",
        "show-progress-bar": 0,
        "trace": 0,
    }
    lines = [f"{key}={str(value).replace('%', '%%')}" for key, value in rows.items() if value != ""]
    atomic_write(folder / "easybuild.cfg", "[config]\nsuffix-modules-path=\n" + "\n".join(lines) + "\n")
    return easyconfig


def _easyconfig(order: Order, folder: Path) -> Path:
    """The easyconfig and the files that lie beside it, copied and held against the lock: what runs is what was locked."""
    locked = order.locked
    if locked.origin == "catalog":
        found = local_easyconfig(locked, order.site)
    else:
        found = order.tool.easyconfigs / locked.folder / locked.easyconfig
    folder.mkdir(parents=True)
    for name, sha256 in ((locked.easyconfig, locked.sha256), *((p.name, p.sha256) for p in locked.patches)):
        path = None if found is None else found.parent / name
        if path is None or not path.is_file() or sha256_file(path) != sha256:
            raise EnvmgrError(
                "easyconfig-differs", f"{name} is not what the lock says",
                context=[str(path or f"EasyBuild {order.tool.version} has none"), f"sha256 {sha256} was locked"],
                hint="lock the entry again, or take the file back from git",
            )  # fmt: skip
        shutil.copyfile(path, folder / name)
    return folder / locked.easyconfig


def _run(order: Order, folder: Path, easyconfig: Path, runner: Runner, reporter: Reporter) -> None:
    install = order.install
    events = Events(folder / "events" / "steps.jsonl")
    env = order.tool.environment(
        EASYBUILD_CONFIGFILES=str(folder / "easybuild.cfg"), ENVMGR_EASYBUILD_ITEMS=str(folder / "items.json"),
        ENVMGR_EASYBUILD_EVENTS=str(events.path), SOURCE_DATE_EPOCH=_EPOCH, PYTHONHASHSEED="0", HOME=str(folder / "home"),
        TMPDIR=str(folder / "tmp"), XDG_CONFIG_HOME=str(folder / "home"),
    )  # fmt: skip
    argv: list[str | Path] = [order.tool.python, "-s", "-P", "-m", "easybuild.main", easyconfig]
    with reporter.stage(f"{install.entry} build", total=events.total, unit="steps") as stage:

        def tick() -> None:
            told = events.log
            for line in events.read():
                reporter.log(f"{install.entry}: {line}")
            if events.log != told:
                reporter.say(f"{install.entry}: EasyBuild's log is {events.log}")
            stage.update(events.done, detail=events.detail)

        try:
            try:
                done = runner.run(argv, env=env, cwd=folder, check=False, on_tick=tick)
            finally:
                _end_daemons(install, folder, reporter)
        except BaseException:
            _remove_lock(install)
            reporter.log(f"{install.entry}: EasyBuild's log was kept as {_keep_log(order, folder, None)}")
            raise
        tick()
    if done.returncode < 0:
        _remove_lock(install)
    log = _keep_log(order, folder, done)
    if done.returncode != 0 or not install.path.is_dir() or not install.easybuild_module.is_file():
        error = explain(order.locked, install, done, events.failed, events.step, folder, log)
        with suppress(OSError), Path(log or os.devnull).open("a", encoding="utf-8") as file:
            file.write(f"\n== envmgr says\n{error}\n")
        raise error
    reporter.log(f"{install.entry}: EasyBuild's log was kept as {log}")


def _end_daemons(install: Install, folder: Path, reporter: Reporter) -> None:
    """Some builds start servers of their own (bazel does), in sessions of their own: they end with the build, too."""
    with suppress(EnvmgrError):  # what the build itself says is told
        if ended := end_processes_in(str(folder)):
            reporter.log(f"{install.entry}: ended {ended} processes that the build left running")


def _keep_log(order: Order, folder: Path, done: Completed | None) -> str:
    """EasyBuild's log under `<prefix>/var/log/easybuild`, with what failed commands said; its path, or empty when there is none.

    It would be part of the install otherwise, and two equal builds would differ.
    """
    install = order.install
    logs = sorted([*(folder / "log").rglob("*.log"), *(install.path / "easybuild").glob("*.log*")])
    outputs = sorted((folder / "tmp").rglob("run-shell-cmd-output/**/out.txt"))
    now = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    target = install.prefix.logs / "easybuild" / f"{now}-{install.entry.name}-{install.label}.log"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            for path in logs:
                file.write(path.read_bytes())
            for path in outputs if done is None or done.returncode else ():
                file.write(f"\n== output of a command: {path.parent.name}\n".encode() + path.read_bytes())
            if done is not None:
                file.write(f"\n== eb said\n{done.stdout}{done.stderr}".encode(errors="backslashreplace"))
    except OSError:  # a full disk: the error that is told is the build's
        return ""
    return str(target)


def _finish(order: Order) -> None:
    """Only what the software is stays: EasyBuild's logs and reports differ with every build, its easyconfig does not."""
    install = order.install
    notes = install.path / "easybuild"
    if notes.is_dir():
        keep = notes / order.locked.easyconfig
        text = keep.read_bytes() if keep.is_file() else None
        remove_tree(notes)
        if text is not None:
            notes.mkdir()
            keep.write_bytes(text)
    make_read_only(install.path, group=group_id(order.site.policies.group), mask=order.site.policies.mask)
    install.easybuild_module.chmod(0o444)
    sync_file_system(install.path)
