"""Build a locked environment by the site's Spack: without a network, of sources from the cache, at its final path."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from envmgr.backends.spack.models import Locked
from envmgr.backends.spack.tool import Spack
from envmgr.catalog.shell_rules import fault_in_variable, lies_in
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.modules.spec import EnvOp
from envmgr.report import Reporter, Stage
from envmgr.store.build_folders import build_folder, staged_install, work_folder
from envmgr.store.isolation import isolate, warn_of_root
from envmgr.store.manifest import InstallFacts
from envmgr.store.prefix import Install
from envmgr.system.log_excerpt import meaningful
from envmgr.system.run import Runner
from envmgr.system.sandbox import with_own_mounts
from envmgr.system.shelltext import script_text

_STEP = re.compile(r"==> Installing (\S+) \[(\d+)/(\d+)\]")
# Spack's classes of changes; others only sort lists, or add flags.
_KINDS: Mapping[str, Any] = {"SetEnv": "set", "UnsetEnv": "unset", "PrependPath": "prepend", "AppendPath": "append"}
_TAIL = 1 << 20  # bytes of a log that may have the last step


def install_environment(
    lock: Locked, install: Install, site: Site, runner: Runner, reporter: Reporter, jobs: int
) -> tuple[InstallFacts, dict[str, str]]:
    """Make the install, read-only; return its facts and the version of Spack. Nothing stays of one that failed."""
    _require_externals(lock)
    words = isolate(site, runner, reporter).words
    mounts, said = with_own_mounts(runner)
    if mounts is None:
        what = "Spack's builds need mounts that no one else sees, which this user cannot have here"
        hint = "build on a host where users may have user namespaces (`unshare --user --mount true`)"
        raise EnvmgrError("build-mounts", what, context=said, hint=hint)
    warn_of_root(reporter, [str(lock.entry)])
    work = work_folder(site, install)
    with build_folder(install, work, runner, reporter), staged_install(install, site) as staged:
        tool = Spack.of(site, work, runner)
        tool.describe(lock.wanted, install.path, lock.text)
        for source in lock.record.sources:
            place = work / "mirror" / source.place
            place.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # two packages may have one source
                place.symlink_to(source.file(site).cached(install.prefix))
        for folder in (staged.folder, install.path):
            folder.mkdir(exist_ok=True)
        # Spack sees the staged folder at the final path; others see nothing there, or the install that is replaced.
        script = script_text(__file__, "mount.sh")
        before = (*words, *mounts, "/bin/sh", "-c", script, "sh", str(staged.folder), str(install.path))
        _require_same(tool, lock, before)
        _run(tool, before, lock, install, reporter, jobs)
        changes = tool.ask("environment", before)
        facts = InstallFacts(environment=tuple(_environment(changes, install.path, lock, reporter)))
    return facts, {"spack": tool.said}


def _require_externals(lock: Locked) -> None:
    rows = (spec for spec in lock.content.specs.values() if spec.external and not Path(spec.path or "/").is_dir())
    if lacking := [f"{spec.name} {spec.version} in {spec.path}" for spec in rows]:
        hint = f"install it there; or name another in Spack's packages.yaml, and `envmgr lock {lock.entry}`"
        what = f"{lock.entry} counts on software that is not here"
        raise EnvmgrError("external-missing", what, context=lacking, hint=hint)


def _require_same(tool: Spack, lock: Locked, before: Sequence[str]) -> None:
    here, was = f"{tool.said}  ({tool.settings.spack})", lock.content.spack
    context = [f"locked by {was}", f"here      {here}"] if tool.said != was else tool.ask("changed", before)
    if context:
        what = "another Spack" if tool.said != was else "a Spack whose packages were others"
        hint = f"check out what the lock names (`git status` says what was changed), or `envmgr lock {lock.entry}`"
        raise EnvmgrError("spack-version", f"{lock.entry} was locked by {what}", context=context, hint=hint)


def _run(tool: Spack, before: Sequence[str], lock: Locked, install: Install, reporter: Reporter, jobs: int) -> None:
    now = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    log = install.prefix.logs / "spack" / f"{now}-{install.entry.name}-{install.label}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    words = tool.argv("install", "--only-concrete", "--no-cache", "--fail-fast", "--verbose", f"-j{jobs}")
    argv = [*before, "/bin/sh", "-c", 'exec "$@" >"$0" 2>&1', str(log), *words]
    reporter.say(f"{lock.entry}: Spack's log is {log}")
    with reporter.stage(f"{lock.entry} build", unit="packages") as stage:
        done = tool.runner.run(argv, env=tool.variables, cwd=tool.work, check=False, on_tick=lambda: _show(log, stage))
    if done.returncode:
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else done.stderr
        hint = "its build has no network, and only the sources and packages of the lock"
        what = f"Spack did not build {lock.entry}"
        raise EnvmgrError("build-failed", what, context=meaningful(text), log=str(log), hint=hint)


def _show(log: Path, stage: Stage) -> None:
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        for name, number, total in _STEP.findall(file.read().decode(errors="replace"))[-1:]:
            stage.update(int(number) - 1, total=int(total), detail=name)


def _environment(changes: Sequence[Any], root: Path, lock: Locked, reporter: Reporter) -> Iterator[EnvOp]:
    """Yield what loading the environment changes: lists get folders of the install, and no module changes all."""
    for word, name, value, separator in changes:
        if word not in _KINDS:
            continue
        as_list = word.endswith("Path")
        why = fault_in_variable(name, as_list=as_list, added=(value,), own=(root,))
        if as_list and not lies_in(value, (root,)):
            why = "it is no folder of the install"
        if why:
            reporter.log(f"{lock.entry}: left out {_KINDS[word]} {name} {value}: {why}")
        else:
            yield EnvOp(kind=_KINDS[word], name=name, value=value, separator=separator)
