"""From a lock to an install: fetch, unpack into a sibling, make the interpreter, compile, mark, make read-only, rename."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from envmgr.backends.wheels.base import SYSTEM_PYTHONS, Base
from envmgr.backends.wheels.build_wheels import built_wheels
from envmgr.backends.wheels.input import WheelsQuestion
from envmgr.backends.wheels.lock import WheelsLock
from envmgr.catalog.site import Site
from envmgr.downloads.bars import Event, WorkerBars
from envmgr.downloads.client import call_worker
from envmgr.report import Reporter
from envmgr.store.landing import clear, land
from envmgr.store.manifest import InstallFacts
from envmgr.store.path_folders import path_environment
from envmgr.store.prefix import Install, Item
from envmgr.store.tree import make_read_only
from envmgr.system.files import explain_os_error, group_id
from envmgr.system.pythons import mark_pythons
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
    """Make the item's install, read-only. Returns its facts, path -> sha256 as the wheels promise it, and what the record has
    of wheels that were built. `recipe` is the recipe's folder.

    On any failure neither staging nor a half install stays, and a partial one is never gone on with; what was downloaded stays in
    the cache, checked.
    """
    install = item.install
    install.check_length()
    clear(install)  # left by a kill, before the rename or between that and the manifest; we hold this install's lock
    fetch_wheels(lock, str(install.entry), site, runner, reporter, given={})
    below = item.needs[0] if item.needs else None
    cache = wheel_cache(install.prefix)
    files = {wheel.name: cache / wheel.sha256 / wheel.file for wheel in lock.wheels}
    require_files_answer(
        wanted, lock.parts, files, base.version, install.entry
    )  # before a source is built with any of it
    try:
        with (
            explain_os_error(install.staging),
            built_wheels(lock, wanted, base, recipe, item, site, runner, reporter, jobs=jobs) as made,
        ):
            built = dict(zip([sdist.name for sdist in lock.sdists], [each.path for each in made], strict=True))
            require_files_answer(wanted, lock.parts, files | built, base.version, install.entry)
            install.staging.mkdir(parents=True)
            wheels = [*files.values(), *built.values()]
            expected = _run_worker(wheels, base, below, install, runner, reporter, jobs=jobs)
            for mark in mark_pythons(install.staging):
                expected.pop(mark, None)
            make_read_only(install.staging, group=group_id(site.policies.group), mask=site.policies.mask)
            land(install)
    except BaseException:
        with suppress(OSError):  # what went wrong first is what is told; the next run cleans up
            clear(install)
            install.path.parent.rmdir()  # only an empty one goes
        raise
    facts = InstallFacts(
        environment=path_environment(install.path), python=base.minor, needs=() if below is None else (below.relative,)
    )
    return facts, expected, tuple(each.record for each in made)


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
    expected: dict[str, str] = {}
    with ExitStack() as stack:
        bars = WorkerBars("unpack", "wheels", len(wheels), str(install.entry), reporter, stack)

        def on_event(event: Event) -> None:
            if event["event"] == "promised":
                expected.update(event["files"])
            bars.on_event(event)

        call_worker(
            "envmgr.backends.wheels.worker",
            request,
            runner,
            reporter,
            failure=wheel_failure,
            on_event=on_event,
            name="wheels",
        )
    return expected
