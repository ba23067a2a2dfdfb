"""Installation of a wheels lock: fetch, unpack into a sibling, make the interpreter, compile, mark, make read-only,
rename.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from envmgr.backends.wheels.base import SYSTEM_PYTHONS, Base
from envmgr.backends.wheels.build_wheels import built_wheels
from envmgr.backends.wheels.input import WheelsQuestion
from envmgr.backends.wheels.lock import WheelsLock
from envmgr.catalog.site import Site
from envmgr.downloads.client import promised_by_worker
from envmgr.report import Reporter
from envmgr.store.build_folders import staged_install
from envmgr.store.manifest import InstallFacts, path_environment
from envmgr.store.prefix import Install, Item
from envmgr.system.run import Runner
from envmgr.wheels.failures import wheel_failure
from envmgr.wheels.fetch import fetch_wheels
from envmgr.wheels.metadata import require_files_answer
from envmgr.wheels.settings import wheel_cache


def install_lock(
    lock: WheelsLock,
    wanted: WheelsQuestion,
    base: Base,
    recipe: Path,
    item: Item,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    jobs: int,
) -> tuple[InstallFacts, dict[str, str], tuple[Mapping[str, str], ...]]:
    """Make the item's install, read-only.

    Return its facts, path -> sha256 as the wheels promise it, and the record of wheels that were built. `recipe` is the
    recipe's folder. On any failure neither staging nor a partial install stays, and a partial one is never continued.
    Downloads stay in the cache, checked.
    """
    install = item.install
    below = item.needs[0] if item.needs else None
    cache = wheel_cache(install.prefix)
    files = {wheel.name: cache / wheel.sha256 / wheel.file for wheel in lock.wheels}
    with staged_install(install, site) as staged:
        fetch_wheels(lock, str(install.entry), site, runner, reporter, given={})
        require_files_answer(
            wanted, lock.parts, files, base.version, install.entry
        )  # before a source is built with any of it
        with built_wheels(lock, wanted, base, recipe, item, site, runner, reporter, jobs=jobs) as made:
            built = dict(zip([sdist.name for sdist in lock.sdists], [each.path for each in made], strict=True))
            require_files_answer(wanted, lock.parts, files | built, base.version, install.entry)
            staged.folder.mkdir()
            wheels = [*files.values(), *built.values()]
            staged.promised |= _run_worker(wheels, base, below, install, runner, reporter, jobs=jobs)
            staged.land()
    facts = InstallFacts(
        environment=path_environment(install.path), python=base.minor, needs=() if below is None else (below.relative,)
    )
    return facts, staged.promised, tuple(each.record for each in made)


def _run_worker(
    wheels: Sequence[Path],
    base: Base,
    below: Install | None,
    install: Install,
    runner: Runner,
    reporter: Reporter,
    *,
    jobs: int,
) -> dict[str, str]:
    request = {
        "wheels": [str(path) for path in wheels],
        "staging": str(install.staging),
        "final": str(install.path),
        "minor": base.minor,
        "base": None if below is None else str(below.path),
        "programs": str(SYSTEM_PYTHONS),
        "cache": str(wheel_cache(install.prefix)),
        "jobs": jobs,
    }
    return promised_by_worker(
        "envmgr.backends.wheels.worker",
        request,
        len(wheels),
        str(install.entry),
        runner,
        reporter,
        failure=wheel_failure,
    )
