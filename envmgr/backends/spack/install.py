"""Build a locked environment by the site's Spack: without a network, of sources from the cache, at its final path."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from envmgr.backends.spack.models import SpackRecord
from envmgr.backends.spack.tool import Spack
from envmgr.catalog.names import Entry
from envmgr.catalog.shell_rules import fault_in_variable
from envmgr.catalog.site import Site
from envmgr.downloads.sources import cached_source, fetch_sources
from envmgr.errors import EnvmgrError
from envmgr.modules.spec import EnvOp
from envmgr.report import Reporter, Stage
from envmgr.store.build_folders import build_folder, staged_install, work_folder
from envmgr.store.isolation import isolate, warn_of_root
from envmgr.store.manifest import InstallFacts
from envmgr.store.prefix import Install, Prefix
from envmgr.store.spack_files import SpackLock
from envmgr.system.files import explain_os_error
from envmgr.system.log_excerpt import meaningful
from envmgr.system.run import Runner
from envmgr.system.sandbox import with_own_mounts
from envmgr.system.shelltext import script_text

_STEP = re.compile(r"==> Installing (\S+) \[(\d+)/(\d+)\]")
# Classes of Spack that change a variable for good; others only sort and prune lists.
_KINDS: Mapping[str, Any] = {
    "SetEnv": "set",
    "SetPath": "set",
    "UnsetEnv": "unset",
    "PrependPath": "prepend",
    "AppendPath": "append",
    "AppendFlagsEnv": "append",
}
_OF_ITS_OWN = ("LD_LIBRARY_PATH", "PYTHONPATH")


def require_same(tool: Spack, lock: SpackLock, entry: Entry) -> None:
    """Raise EnvmgrError `spack-version` unless it is the Spack of the lock."""
    if tool.said != lock.spack:
        raise EnvmgrError(
            "spack-version",
            f"{entry} was locked by another Spack than the site's",
            context=[f"locked by {lock.spack}", f"here      {tool.said}  ({tool.settings.spack})"],
            hint=f"check that commit out, or take the site's by `envmgr lock {entry}`",
        )


def require_externals(lock: SpackLock) -> None:
    """Raise EnvmgrError `external-missing` for software of the system on which the lock counts."""
    rows = [spec for spec in lock.specs.values() if spec.external and spec.path and not Path(spec.path).is_dir()]
    if rows:
        raise EnvmgrError(
            "external-missing",
            "the lock counts on software of the system that is not here",
            context=[f"{each.name} {each.version} in {each.path}" for each in rows],
            hint="install it there; or name another in `packages.yaml`, and lock again",
        )


def install_environment(
    record: SpackRecord,
    locked: tuple[SpackLock, str],
    wanted: Mapping[str, Any],
    entry: Entry,
    install: Install,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    jobs: int,
) -> tuple[InstallFacts, dict[str, str]]:
    """Make the install, read-only; return its facts and the version of Spack. Nothing stays of one that failed."""
    lock, text = locked
    require_externals(lock)
    files = [source.file(site) for source in record.sources]
    fetch_sources(files, site, runner, reporter, label=str(entry))
    words = isolate(site, runner, reporter).words
    mounts, said = with_own_mounts(runner)
    if mounts is None:
        raise EnvmgrError(
            "build-mounts",
            "an environment of Spack cannot be built here: that needs mounts that no one else sees",
            context=said,
            hint="on a host where users may have user namespaces (`unshare --user --mount true`)",
        )
    warn_of_root(reporter, [str(entry)])
    work = work_folder(site, install)
    with build_folder(install, work, runner, reporter), staged_install(install, site) as staged:
        tool = Spack.of(site, work, runner)
        require_same(tool, lock, entry)
        tool.describe(wanted, install.path, text)
        _link_mirror(record, site, work / "mirror")
        for folder in (staged.folder, install.path):
            folder.mkdir(exist_ok=True)
        # Spack sees the staged folder at the final path: other processes see none, or the install that is replaced.
        script = script_text(__file__, "mount.sh")
        before = (*words, *mounts, "/bin/sh", "-c", script, "sh", str(staged.folder), str(install.path))
        _require_unchanged(tool, entry, before)
        _run(tool, before, entry, install, reporter, jobs)
        environment = tuple(_environment(tool.ask("environment", before)["changes"], install.path, entry, reporter))
    return InstallFacts(environment=environment), {"spack": tool.said}


def _require_unchanged(tool: Spack, entry: Entry, before: Sequence[str]) -> None:
    if changed := tool.ask("sources", before)["changed"]:
        raise EnvmgrError(
            "spack-version",
            "packages of this Spack are not as they were when they were locked",
            context=changed,
            hint=f"restore its files (`git status` in {tool.settings.spack} names them), or `envmgr lock {entry}`",
        )


def _link_mirror(record: SpackRecord, site: Site, mirror: Path) -> None:
    for source in record.sources:
        place, file = mirror / source.place, source.file(site)
        cached = cached_source(Prefix(site.prefix), file)
        if cached is None:
            raise EnvmgrError("source-missing", f"{file.name} went from the cache while it was needed")
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(cached)


def _run(tool: Spack, before: Sequence[str], entry: Entry, install: Install, reporter: Reporter, jobs: int) -> None:
    now = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    log = install.prefix.logs / "spack" / f"{now}-{entry.name}-{install.label}.log"
    with explain_os_error(log):
        log.parent.mkdir(parents=True, exist_ok=True)
    words = tool.argv("install", "--only-concrete", "--no-cache", "--fail-fast", "--verbose", f"-j{jobs}")
    argv = [*before, "/bin/sh", "-c", 'exec "$@" >"$0" 2>&1', str(log), *words]
    reporter.say(f"{entry}: Spack's log is {log}")
    with reporter.stage(f"{entry} build", unit="packages") as stage:
        done = tool.runner.run(argv, env=tool.variables, cwd=tool.work, check=False, on_tick=lambda: _show(log, stage))
    if done.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace") if log.exists() else done.stderr
        raise EnvmgrError(
            "build-failed",
            f"Spack did not build {entry}",
            context=meaningful(lines),
            log=str(log),
            hint="its build has no network, and only the sources and packages of the lock",
        )


def _show(log: Path, stage: Stage) -> None:
    with suppress(OSError), log.open(encoding="utf-8", errors="replace") as file:
        if found := _STEP.findall(file.read()):
            name, number, total = found[-1]
            stage.update(int(number) - 1, total=int(total), detail=name)


def _environment(changes: Sequence[Any], root: Path, entry: Entry, reporter: Reporter) -> Iterator[EnvOp]:
    """Yield what loading the environment changes; what no module may change is left out, and said."""
    for word, name, values, separator in changes:
        kind = _KINDS.get(word)
        if kind is None:
            continue
        op = EnvOp(kind=kind, name=name, value=separator.join(values), separator=" " if "Flags" in word else separator)
        as_list = kind in ("prepend", "append")
        own = as_list and name in _OF_ITS_OWN and op.value.startswith(f"{root}/")
        why = "" if own else fault_in_variable(name, as_list=as_list)
        if why:
            reporter.say(f"{entry}: the module leaves out {kind} {name} {op.value}: {why}")
        else:
            yield op
