"""Build one store item: fill its private folder, run one `eb` of its own, follow its events, finish its tree, read its
module.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envmgr.backends.easybuild.build_place import clear_leftovers, end_daemons, remove_half, remove_lock
from envmgr.backends.easybuild.easyconfigs import EASYCONFIG, local_easyconfig, local_file, root_of, sum_of
from envmgr.backends.easybuild.failures import build_failure
from envmgr.backends.easybuild.flat import flat_facts
from envmgr.backends.easybuild.installation import INSIDE, EasyBuild
from envmgr.backends.easybuild.items import (
    configuration_of,
    locks_folder,
    module_file,
    module_name,
    modules_folder,
    runs_with,
)
from envmgr.backends.easybuild.lock import EasyBuildLock, LockedItem
from envmgr.backends.easybuild.settings import accept_eula_for, easyconfig_folders
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import Lmod
from envmgr.report import Reporter
from envmgr.store.build_folders import build_folder, work_folder
from envmgr.store.manifest import InstallFacts
from envmgr.store.prefix import Install, Item
from envmgr.store.tree import make_read_only
from envmgr.system.files import atomic_write, explain_os_error, group_id, pretty_json, sync_file_system
from envmgr.system.pythons import mark_pythons
from envmgr.system.run import Completed, Runner
from envmgr.system.safe_paths import change, remove_below
from envmgr.system.untrusted_files import copy_file

# EasyBuild's steps, in its order, as our hooks name them.
STEPS = (
    "fetch",
    "unpack",
    "patch",
    "prepare",
    "configure",
    "build",
    "test",
    "install",
    "extensions",
    "finish",
    "sanity",
    "cleanup",
    "module",
)


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
    def below(self) -> list[Install]:
        """The installs on which it may be built: all others of the lock."""
        return [item.install for item in self.items if item.install != self.install]

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
        # Otherwise EasyBuild names install folders by its own scheme, and only modules by ours.
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
    # EasyBuild reads the file with configparser, for which one % begins an interpolation.
    lines = [f"{key}={str(value).replace('%', '%%')}" for key, value in rows.items() if value != ""]
    # An empty suffix must be written out, because EasyBuild's default is `all`.
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


_EPOCH = "1577836800"  # 2020-01-01: what programs that write the time of a build write instead


def build_easyconfig(
    order: Order, runner: Runner, reporter: Reporter, *, jobs: int
) -> tuple[InstallFacts, tuple[dict[str, str], ...]]:
    """Build the item in place, read-only at the end.

    Return its facts, and the place where it was compiled if files of it have that path in them, for the manifest.
    On any failure neither the install nor its module stays.

    Raises:
        EnvmgrError: see `build_failure`; `easyconfig-differs`; `easybuild-locked`; `disk-full`; Interrupted.
    """
    install = order.install
    folder = work_folder(order.site, install)
    with explain_os_error(install.path):
        clear_leftovers(install, runner, reporter)
        for each in (install.path.parent, module_file(install).parent, locks_folder(install.prefix)):
            each.mkdir(parents=True, exist_ok=True)
        _let_read(module_file(install).parent)
    with build_folder(install, folder, runner, reporter):
        try:
            with explain_os_error(folder):
                easyconfig = lay_out(order, folder, jobs)
            _run(order, folder, order.tool.argv("easybuild.main", easyconfig), runner, reporter)
            with explain_os_error(install.path):
                _finish(order)
            made = _made_at(install.path, folder, runner, reporter)
            return flat_facts(install, order.closure, order.lmod), made
        except BaseException:
            with suppress(OSError):  # the first error counts; the next run cleans up
                remove_half(install)
                install.path.parent.rmdir()  # only an empty one goes
            raise


def _run(order: Order, folder: Path, argv: Sequence[str | Path], runner: Runner, reporter: Reporter) -> None:
    install = order.install
    events = Events(folder / "events" / "steps.jsonl")
    env = order.tool.environment(
        EASYBUILD_CONFIGFILES=str(folder / "easybuild.cfg"),
        ENVMGR_EASYBUILD_ITEMS=str(folder / "items.json"),
        ENVMGR_EASYBUILD_EVENTS=str(events.path),
        SOURCE_DATE_EPOCH=_EPOCH,
        # Otherwise two builds may write what is in a set in another order.
        PYTHONHASHSEED="0",
        # Programs read settings in HOME, and the build user's own must not decide what is built.
        HOME=str(folder / "home"),
        TMPDIR=str(folder / "tmp"),
        XDG_CONFIG_HOME=str(folder / "home"),
    )
    with reporter.stage(f"{install.entry} build", total=events.total, unit="steps") as stage:

        def tick() -> None:
            before = events.log
            for line in events.read():
                reporter.log(f"{install.entry}: {line}")
            if events.log != before:
                reporter.say(f"{install.entry}: EasyBuild's log is {events.log}, until the build ends")
            stage.update(events.done, detail=events.detail)

        try:
            try:
                done = runner.run(argv, env=env, cwd=folder, check=False, on_tick=tick)
            finally:
                end_daemons(install, folder, reporter)
        except BaseException:
            # After `end_daemons`: the lock must stay as long as processes of the build may run.
            remove_lock(install)
            if kept := _keep_log(order, folder, None):
                reporter.say(f"{install.entry}: EasyBuild's log was kept as {kept}")
            raise
        # The last events may have come after the last tick.
        tick()
    if done.returncode < 0:
        # A killed EasyBuild cannot remove its own lock.
        remove_lock(install)
    log = _keep_log(order, folder, done)
    # EasyBuild may report success although its files lie elsewhere.
    if done.returncode != 0 or not install.path.is_dir() or not module_file(install).is_file():
        error = build_failure(order.locked, install, done, events.failed, events.step, folder, log)
        with suppress(OSError), Path(log or os.devnull).open("a", encoding="utf-8") as file:
            file.write(f"\n== envmgr says\n{error}\n")
        raise error
    reporter.log(f"{install.entry}: EasyBuild's log was kept as {log}")


def _keep_log(order: Order, folder: Path, done: Completed | None) -> str:
    """Keep EasyBuild's log under `<prefix>/var/log/easybuild`, with the output of failed commands.

    Return its path; empty if it could not be written. As a part of the install it would make two equal builds differ.
    """
    install = order.install
    logs = sorted([*(folder / "log").rglob("*.log"), *(install.path / "easybuild").glob("*.log*")])
    outputs = sorted((folder / "tmp").rglob("run-shell-cmd-output/**/out.txt"))
    now = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    target = install.prefix.logs / "easybuild" / f"{now}-{install.entry.name}-{install.label}.log"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:  # through no link that somebody put there
            for path in logs:
                file.write(path.read_bytes())
            for path in outputs if done is None or done.returncode else ():
                file.write(f"\n== output of a command: {path.parent.name}\n".encode() + path.read_bytes())
            if done is not None:
                file.write(f"\n== eb said\n{done.stdout}{done.stderr}".encode(errors="backslashreplace"))
    except OSError:  # a full disk: the error of the build matters more
        return ""
    return str(target)


def _finish(order: Order) -> None:
    """Remove EasyBuild's logs and reports, which differ with every build, and make the tree read-only."""
    install = order.install
    tree, module = install.path, module_file(install)
    notes = tree / "easybuild"
    if notes.is_dir():
        keep = notes / order.locked.easyconfig
        text = keep.read_bytes() if keep.is_file() else None
        remove_below(install.prefix.root, notes)
        if text is not None:
            notes.mkdir()
            keep.write_bytes(text)
    mark_pythons(tree)
    group = group_id(order.site.policies.group)
    make_read_only(tree, group=group, mask=order.site.policies.mask)
    change(module, group=group, mode=0o444, kinds=(stat.S_ISREG,))
    # The tree must be on the disk before a manifest says that it is whole.
    sync_file_system(tree)


def _made_at(tree: Path, folder: Path, runner: Runner, reporter: Reporter) -> tuple[dict[str, str], ...]:
    """Return the place of the build if files of the tree name it.

    Compilers write it into debug information, `__FILE__` and lists of flags: another place gives other bytes then.
    """
    words = ("grep", "--recursive", "--quiet", "--no-messages", "--fixed-strings", "--", str(folder), tree)
    if runner.run(words, check=False).returncode:
        return ()
    reporter.say(
        f"{tree.parent.name} {tree.name}: its files have the path {folder} in them: built elsewhere, they may differ"
    )
    return ({"path": str(folder)},)


def _let_read(folder: Path) -> None:
    """Let every user read the folder, independent of the umask: modules are for all users who reach them."""
    if folder.stat().st_mode & 0o555 != 0o555:
        with suppress(PermissionError):  # another member owns it
            change(folder, add=0o555)


class Events:
    """Follows the file that the hooks write.

    `done` counts steps, `detail` is the current activity, and `step` the last step that began. `log` is the place of
    EasyBuild's log while it runs, `failed` its message on a failure.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.total = len(STEPS)
        self.done = 0
        self.detail = ""
        self.step = ""
        self.failed = ""
        self.log = ""
        self._offset = 0

    def read(self) -> Iterator[str]:
        """Yield new events as readable lines."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        # The hooks may be in the middle of a line: the rest is read the next time.
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.splitlines():
            with suppress(ValueError, KeyError):
                yield self._take(json.loads(line))

    def _take(self, event: dict[str, str]) -> str:
        match event["event"]:
            case "step":
                self.detail = self.step = event["step"]
                if event["step"] in STEPS:
                    self.done = STEPS.index(event["step"])
                self.log = self.log or event["log"]
                return str(event["step"])
            case "extension":
                self.detail = f"extension {event['name']}"
                return self.detail
            case _:
                self.failed = event["message"]
                return f"failed: {event['message']}"
