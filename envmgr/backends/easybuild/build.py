"""Build one store item: lay out its files, run one `eb` of its own, finish its tree, read its module."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from envmgr.backends.easybuild.build_files import Order, lay_out
from envmgr.backends.easybuild.events import Events
from envmgr.backends.easybuild.failures import build_failure
from envmgr.backends.easybuild.flat import flat_facts
from envmgr.backends.easybuild.items import MARKED, brings_python, locks_folder, module_file
from envmgr.backends.easybuild.leftovers import clear_leftovers, end_daemons, remove_half, remove_lock
from envmgr.backends.easybuild.rebuild_in_place import (
    built_module,
    built_tree,
    lift_tree,
    replace_install,
    stage_rebuild,
)
from envmgr.report import Reporter
from envmgr.store.build_folders import build_folder, work_folder
from envmgr.store.manifest import InstallFacts
from envmgr.store.tree import make_read_only
from envmgr.system.files import explain_os_error, group_id, sync_file_system
from envmgr.system.pythons import mark_pythons
from envmgr.system.run import Completed, Runner
from envmgr.system.safe_paths import change, remove_below

_EPOCH = "1577836800"  # 2020-01-01: what programs that write the time of a build write instead


def build_easyconfig(
    order: Order, runner: Runner, reporter: Reporter, *, jobs: int
) -> tuple[InstallFacts, tuple[dict[str, str], ...]]:
    """Build the item in place, read-only at the end.

    Return its facts, and the place where it was compiled if files of it have that path in them, for the manifest.
    On any failure neither the install nor its module stays. If it is built again, what lay there stays until the new
    one is whole.

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
    with build_folder(install, folder):
        try:
            with explain_os_error(folder):
                easyconfig = lay_out(order, folder, jobs)
                words = () if install.replaces is None else stage_rebuild(install, folder, runner)
            _run(order, folder, [*words, *order.tool.argv("easybuild.main", easyconfig)], runner, reporter)
            with explain_os_error(install.path):
                _finish(order, folder)
                if install.replaces is not None:
                    replace_install(install, folder)
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
        PYTHONHASHSEED="0",
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
                reporter.say(f"{install.entry}: EasyBuild's log is {events.log}")
            stage.update(events.done, detail=events.detail)

        try:
            try:
                done = runner.run(argv, env=env, cwd=folder, check=False, on_tick=tick)
            finally:
                end_daemons(install, folder, reporter)
        except BaseException:
            remove_lock(install)
            reporter.log(f"{install.entry}: EasyBuild's log was kept as {_keep_log(order, folder, None)}")
            raise
        tick()
    if done.returncode < 0:
        remove_lock(install)
    log = _keep_log(order, folder, done)
    if done.returncode != 0 or not built_tree(install).is_dir() or not built_module(install, folder).is_file():
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
    logs = sorted([*(folder / "log").rglob("*.log"), *(built_tree(install) / "easybuild").glob("*.log*")])
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


def _finish(order: Order, folder: Path) -> None:
    """Remove EasyBuild's logs and reports, which differ with every build, and make the tree read-only."""
    install = order.install
    tree, module = lift_tree(install), built_module(install, folder)
    notes = tree / "easybuild"
    if notes.is_dir():
        keep = notes / order.locked.easyconfig
        text = keep.read_bytes() if keep.is_file() else None
        remove_below(install.prefix.root, notes)
        if text is not None:
            notes.mkdir()
            keep.write_bytes(text)
    if brings_python(order.locked) and (install.layout or 0) >= MARKED:
        mark_pythons(tree)
    group = group_id(order.site.policies.group)
    make_read_only(tree, group=group, mask=order.site.policies.mask)
    change(module, group=group, mode=0o444, kinds=(stat.S_ISREG,))
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
