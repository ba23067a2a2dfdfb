"""Install a wheels lock: build the wheels of its sources, fetch, unpack into a sibling, compile, make read-only,
rename.

A source is built twice, in a private folder, and both builds must give the same file. It is built only with what it
asks for.
"""

from __future__ import annotations

import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from envmgr.backends.wheels.build_call import SourceBuild
from envmgr.backends.wheels.input import SYSTEM_PYTHONS, Base
from envmgr.backends.wheels.lock import WheelsLock
from envmgr.catalog.site import Site
from envmgr.downloads.bars import promised_by_worker
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.build_folders import build_folder, staged_install, work_folder
from envmgr.store.isolation import Isolation, isolate, warn_of_root
from envmgr.store.manifest import InstallFacts, path_environment
from envmgr.store.prefix import Install, Item
from envmgr.system.run import Runner
from envmgr.system.sandbox import PLACE
from envmgr.system.untrusted_files import Kind, digest_of
from envmgr.wheels.answers import unmet_requirements
from envmgr.wheels.fetch import wheel_failure
from envmgr.wheels.lockfile import LockedRow, LockedWheels
from envmgr.wheels.metadata import metadata_in
from envmgr.wheels.settings import wheel_cache

_WHEEL = Kind("wheel", 1 << 40)


@dataclass(frozen=True, slots=True)
class BuiltWheel:
    """A wheel that was built; `record` is what the manifest keeps of it."""

    path: Path
    record: Mapping[str, str]


@contextmanager
def built_wheels(
    lock: WheelsLock,
    files: Mapping[str, Path],
    base: Base,
    patches: Mapping[str, Sequence[Path]],
    item: Item,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    jobs: int,
) -> Iterator[tuple[BuiltWheel, ...]]:
    """Yield the wheels of a lock's sources, until they are installed. `files` are what was fetched, by sha256, and
    `patches` those of each source, by its name.

    Raises:
        EnvmgrError: `build-network`, `build-folder`, and see `SourceBuild.ask`.
    """
    if not lock.sources:
        yield ()
        return
    install, total = item.install, len(lock.sources)
    builder = _Builder(lock, files, base, patches, item, isolate(site, runner, reporter), runner, reporter, jobs)
    warn_of_root(reporter, [*lock.builds])
    folder = work_folder(site, install)
    with build_folder(install, folder, runner, reporter):
        built: list[BuiltWheel] = []
        with reporter.stage(f"{install.entry} build", total=total, unit="wheels") as stage:
            for number, sdist in enumerate(lock.sources):

                def tell(detail: str, number: int = number) -> None:
                    stage.update(number, total=total, detail=detail)

                built.append(builder.build(sdist, folder / sdist.name, tell))
            stage.update(total)
        yield tuple(built)


@dataclass(frozen=True, slots=True)
class _Builder:
    lock: WheelsLock
    files: Mapping[str, Path]
    base: Base
    patches: Mapping[str, Sequence[Path]]
    item: Item
    isolation: Isolation
    runner: Runner
    reporter: Reporter
    jobs: int

    def build(self, sdist: LockedRow, work: Path, tell: Callable[[str], None]) -> BuiltWheel:
        """Build one in the new folder `work`; `tell` is called with what goes on."""
        install = self.item.install
        file = self.files[sdist.sha256]
        source = SourceBuild(
            name=sdist.name,
            version=sdist.version,
            sdist=file,
            minor=self.base.minor,
            programs=SYSTEM_PYTHONS,
            patches=self.patches.get(sdist.name, ()),
            base=self.item.needs[0].path if self.item.needs else None,
            cache=wheel_cache(install.prefix),
            isolation=self.isolation,
            runner=self.runner,
        )
        work.mkdir()
        seen = PLACE if source.placed(work) else work
        if seen == work:
            self.reporter.say(
                f"{install.entry}: {sdist.name} is built in {work}, as it cannot be seen elsewhere here: with another "
                "user or folder its files may differ"
            )

        def tick() -> None:
            tell(f"{sdist.name}, {'second' if (work / 'wheel1').exists() else 'first'} of two builds")

        self.reporter.say(
            f"{install.entry}: the log of the build of {sdist.name} is {work / 'log'}, until the build ends"
        )
        logs: list[str] = []

        def keep(log: Path) -> str:
            logs.append(_keep_log(log, install, sdist.name))
            if logs[-1] and self.runner.cancel.is_set():  # no error names it
                self.reporter.say(f"{install.entry}: the log was kept as {logs[-1]}")
            return logs[-1]

        built_with = self.lock.builds[sdist.name].rows
        answer = source.ask("wheel", work, built_with, jobs=self.jobs, keep_log=keep, on_tick=tick)
        path = work / "wheel0" / answer.wheel
        _require_answer(sdist, file.name, path, self.lock.wheels)
        self.reporter.say(
            f"{install.entry}: {sdist.name} {sdist.version} was built from its source, twice the same: {path.name}"
        )
        record = {
            "name": sdist.name,
            "version": sdist.version,
            "sdist": file.name,
            "sdist_sha256": sdist.sha256,
            "wheel": path.name,
            "wheel_sha256": digest_of(path, _WHEEL),
            "network": self.isolation.network,
            "path": str(seen),
        }
        return BuiltWheel(path, record)


def _require_answer(sdist: LockedRow, file: str, wheel: Path, lock: LockedWheels) -> None:
    """Raise EnvmgrError `sdist-invalid` if the wheel is of another package, or needs what the lock does not have."""
    try:
        name, version, *_ = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename as error:
        raise EnvmgrError("sdist-invalid", f"{file} built a file that is no wheel", context=str(error)) from None
    try:
        needs = metadata_in(wheel).requires
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise EnvmgrError("sdist-invalid", f"{file} built a wheel that cannot be read", context=str(error)) from None
    unmet = [fault.text for fault in unmet_requirements(needs, lock.versions, lock.python, lock.platform, "its wheel")]
    if (name, version) != (sdist.name, Version(sdist.version)) or unmet:
        raise EnvmgrError(
            "sdist-invalid",
            f"{file} built another package than its lock says",
            context=[f"locked: {sdist.name} {sdist.version}", f"built: {name} {version}", *unmet],
            hint="what it needs depends on the host that builds it: lock it on a host like that",
        )


def _keep_log(log: Path, install: Install, name: str) -> str:
    """Copy a log to `<prefix>/var/log/wheels`; return its path, or empty if it cannot be kept."""
    now = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    place = install.prefix.logs / "wheels" / f"{now}-{install.entry.name}-{install.label}-{name}.log"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, place)
    except OSError:  # a full disk: the error that is shown is the build's
        return ""
    return str(place)


def install_lock(
    lock: WheelsLock,
    files: Mapping[str, Path],
    base: Base,
    patches: Mapping[str, Sequence[Path]],
    item: Item,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    jobs: int,
) -> tuple[InstallFacts, dict[str, str], tuple[Mapping[str, str], ...]]:
    """Make the item's install, read-only.

    Return its facts, path -> sha256 as the wheels promise it, and the record of wheels that were built. `files` were
    fetched, by sha256; `patches` are those of each source. On any failure neither staging nor a partial install stays,
    and a partial one is never continued.
    """
    install = item.install
    below = item.needs[0] if item.needs else None
    with (
        staged_install(install, site) as staged,
        built_wheels(lock, files, base, patches, item, site, runner, reporter, jobs=jobs) as made,
    ):
        staged.folder.mkdir()
        wheels = [files[row.sha256] for row in lock.wheels.rows if row not in lock.sources]
        wheels += [each.path for each in made]
        staged.promised |= _run_worker(wheels, base, below, install, runner, reporter, jobs=jobs)
        staged.land()
    facts = InstallFacts(
        environment=path_environment(install.path),
        python=base.minor,
        needs=() if below is None else (below.relative,),
        imports=tuple(each.record["name"] for each in made),
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
        "envmgr.wheels.install_worker",
        request,
        len(wheels),
        str(install.entry),
        runner,
        reporter,
        failure=wheel_failure(str(install.entry)),
    )
