"""One store item: its files, one `eb` of its own, what it made, and what its module says."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from envmgr.backends.easybuild import again
from envmgr.backends.easybuild.events import Events
from envmgr.backends.easybuild.failures import explain
from envmgr.backends.easybuild.flat import flat_facts
from envmgr.backends.easybuild.folders import locks_folder, module_file
from envmgr.backends.easybuild.items import MARKED, brings_python
from envmgr.backends.easybuild.layout import Order, lay_out
from envmgr.backends.easybuild.leftovers import clear, end_daemons, remove_half, remove_lock
from envmgr.report import Reporter
from envmgr.store.manifest import InstallFacts
from envmgr.store.tree import make_read_only
from envmgr.store.workfolder import build_folder, work_folder
from envmgr.system.files import explain_os_error, group_id, sync_file_system
from envmgr.system.pythons import mark_pythons
from envmgr.system.run import Completed, Runner
from envmgr.system.safe_paths import change, remove_below

_EPOCH = "1577836800"  # 2020-01-01: what programs that write the time of a build write instead


def build_easyconfig(
    order: Order, runner: Runner, reporter: Reporter, *, jobs: int
) -> tuple[InstallFacts, tuple[dict[str, str], ...]]:
    """Build the item in place, read-only at the end; its facts, and for the manifest the place where it was compiled, if files of it
    have that path in them. On any failure neither the install nor its module stays; where it is one that is
    built again, what lay there stays until the new one is whole.

    Raises:
        EnvmgrError: see `failures.explain`; `easyconfig-differs`; `easybuild-locked`; `disk-full`; Interrupted.
    """
    install = order.install
    folder = work_folder(order.site, install)
    with explain_os_error(install.path):
        clear(install, runner, reporter)
        for each in (install.path.parent, module_file(install).parent, locks_folder(install.prefix)):
            each.mkdir(parents=True, exist_ok=True)
        _let_read(module_file(install).parent)
    with build_folder(install, folder):
        try:
            with explain_os_error(folder):
                easyconfig = lay_out(order, folder, jobs)
                words = () if install.replaces is None else again.stage(install, folder, runner)
            _run(order, folder, [*words, *order.tool.argv("easybuild.main", easyconfig)], runner, reporter)
            with explain_os_error(install.path):
                _finish(order, folder)
                if install.replaces is not None:
                    again.replace(install, folder)
            made = _made_at(install.path, folder, runner, reporter)
            return flat_facts(install, order.closure, order.lmod), made
        except BaseException:
            with suppress(OSError):  # what went wrong first is what is told; the next run cleans up
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
                end_daemons(install, folder, reporter)
        except BaseException:
            remove_lock(install)
            reporter.log(f"{install.entry}: EasyBuild's log was kept as {_keep_log(order, folder, None)}")
            raise
        tick()
    if done.returncode < 0:
        remove_lock(install)
    log = _keep_log(order, folder, done)
    if done.returncode != 0 or not again.tree_of(install).is_dir() or not again.module_of(install, folder).is_file():
        error = explain(order.locked, install, done, events.failed, events.step, folder, log)
        with suppress(OSError), Path(log or os.devnull).open("a", encoding="utf-8") as file:
            file.write(f"\n== envmgr says\n{error}\n")
        raise error
    reporter.log(f"{install.entry}: EasyBuild's log was kept as {log}")


def _keep_log(order: Order, folder: Path, done: Completed | None) -> str:
    """EasyBuild's log under `<prefix>/var/log/easybuild`, with what failed commands said; its path, or empty when there is none.

    It would be part of the install otherwise, and two equal builds would differ.
    """
    install = order.install
    logs = sorted([*(folder / "log").rglob("*.log"), *(again.tree_of(install) / "easybuild").glob("*.log*")])
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
    except OSError:  # a full disk: the error that is told is the build's
        return ""
    return str(target)


def _finish(order: Order, folder: Path) -> None:
    """Only what the software is stays: EasyBuild's logs and reports differ with every build, its easyconfig does not."""
    install = order.install
    tree, module = again.lift(install), again.module_of(install, folder)
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
    """Compilers write where they stand into debug information, `__FILE__` and lists of flags: then another place gives other bytes."""
    words = ("grep", "--recursive", "--quiet", "--no-messages", "--fixed-strings", "--", str(folder), tree)
    if runner.run(words, check=False).returncode:
        return ()
    reporter.say(
        f"{tree.parent.name} {tree.name}: its files have the path {folder} in them: built elsewhere, they may differ"
    )
    return ({"path": str(folder)},)


def _let_read(folder: Path) -> None:
    """Modules are for every user that reaches them, whatever the umask, as those of a generation are."""
    if folder.stat().st_mode & 0o555 != 0o555:
        with suppress(PermissionError):  # another member's
            change(folder, add=0o555)
