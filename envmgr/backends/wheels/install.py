"""Install a wheels lock: build the wheels of its sources, unpack all into a sibling, compile, make read-only, rename.

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
from functools import partial
from pathlib import Path

from envmgr.backends.wheels.build_call import SourceBuild
from envmgr.backends.wheels.input import SYSTEM_PYTHONS, BasePython
from envmgr.backends.wheels.lock import WheelsLock
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.build_folders import build_folder, staged_install, work_folder
from envmgr.store.isolation import Isolation, isolate, warn_of_root
from envmgr.store.manifest import InstallFacts, path_environment
from envmgr.store.prefix import Item
from envmgr.system.run import Runner
from envmgr.system.sandbox import PLACE
from envmgr.system.untrusted_files import Kind, digest_of
from envmgr.wheels.install import install_wheels, require_wheels
from envmgr.wheels.lock_checks import unmet_requirements
from envmgr.wheels.lockfile import LockedRow, LockedWheels, is_file_of
from envmgr.wheels.metadata import metadata_in
from envmgr.wheels.settings import wheel_cache

_WHEEL = Kind("wheel", 1 << 40)
Built = Mapping[Path, Mapping[str, str]]
"""Wheels that were built, each with what the manifest keeps of it."""


@dataclass(frozen=True, slots=True)
class WheelsInstall:
    """An install that is made. `files` are what was fetched, by sha256, and `patches` those of each source."""

    lock: WheelsLock
    files: Mapping[str, Path]
    base: BasePython
    patches: Mapping[str, Sequence[Path]]
    item: Item
    site: Site
    runner: Runner
    reporter: Reporter
    jobs: int

    def make(self) -> tuple[InstallFacts, dict[str, str], tuple[Mapping[str, str], ...]]:
        """Make the install, read-only.

        Return its facts, path -> sha256 as the wheels promise it, and the records of wheels that were built. On any
        failure neither staging nor a partial install stays, and a partial one is never continued.

        Raises:
            EnvmgrError: `build-network`, `build-folder`, and see `SourceBuild.ask`; InputError: `lock-invalid`.
        """
        install, below, minor = self.item.install, self._below, self.base.minor
        wheels = {row: self.files[row.sha256] for row in self.lock.wheels.rows if row not in self.lock.sources}
        require_wheels(wheels, minor, self.lock.wheels.platform, f"run `envmgr lock {install.entry}`")
        with staged_install(install, self.site) as staged, self._built() as made:
            staged.folder.mkdir()
            staged.promised |= install_wheels(
                [*wheels.values(), *made],
                install,
                self.runner,
                self.reporter,
                minor=minor,
                base=below,
                programs=SYSTEM_PYTHONS,
                jobs=self.jobs,
            )
            staged.land()
        facts = InstallFacts(
            environment=path_environment(install.path),
            python=minor,
            needs=tuple(each.relative for each in self.item.needs[:1]),
            imports=tuple(each["name"] for each in made.values()),
        )
        return facts, staged.promised, tuple(made.values())

    @property
    def _below(self) -> Path | None:
        """The install of the Python; None for the operating system's."""
        return self.item.needs[0].path if self.item.needs else None

    @contextmanager
    def _built(self) -> Iterator[Built]:
        """Yield the wheels of the lock's sources, until they are installed."""
        made: dict[Path, Mapping[str, str]] = {}
        if not (sources := self.lock.sources):
            yield made
            return
        install, total = self.item.install, len(sources)
        isolation = isolate(self.site, self.runner, self.reporter)
        warn_of_root(self.reporter, [*self.lock.builds])
        folder = work_folder(self.site, install)
        with build_folder(install, folder, self.runner, self.reporter):
            with self.reporter.stage(f"{install.entry} build", total=total, unit="wheels") as stage:
                for number, sdist in enumerate(sources):
                    tell = partial(stage.update, number, total=total)
                    made |= self._build(sdist, folder / sdist.name, isolation, tell)
                stage.update(total)
            yield made

    def _build(self, sdist: LockedRow, work: Path, isolation: Isolation, tell: Callable[..., None]) -> Built:
        """Build one in the new folder `work`; `tell` is called with what goes on."""
        entry, file = self.item.install.entry, self.files[sdist.sha256]
        source = SourceBuild(
            row=sdist,
            sdist=file,
            python=self._below or SYSTEM_PYTHONS / f"python{self.base.minor}",
            patches=self.patches.get(sdist.name, ()),
            cache=wheel_cache(self.item.install.prefix),
            isolation=isolation,
            runner=self.runner,
        )
        work.mkdir()
        seen = PLACE if source.placed(work) else work
        if seen == work:
            self.reporter.say(
                f"{entry}: {sdist.name} is built in {work}, as it cannot be seen elsewhere here: with another user or "
                "folder its files may differ"
            )

        def tick() -> None:
            tell(detail=f"{sdist.name}, {'second' if (work / 'wheel1').exists() else 'first'} of two builds")

        self.reporter.say(f"{entry}: the log of the build of {sdist.name} is {work / 'log'}, until the build ends")
        built_with, keep = self.lock.builds[sdist.name].rows, partial(self._keep_log, sdist.name)
        answer = source.ask("wheel", work, built_with, jobs=self.jobs, keep_log=keep, on_tick=tick)
        path = work / "wheel0" / answer.wheel
        _require_answer(sdist, file.name, path, self.lock.wheels)
        self.reporter.say(
            f"{entry}: {sdist.name} {sdist.version} was built from its source, twice the same: {path.name}"
        )
        record = {
            "name": sdist.name,
            "version": sdist.version,
            "sdist": file.name,
            "sdist_sha256": sdist.sha256,
            "wheel": path.name,
            "wheel_sha256": digest_of(path, _WHEEL),
            "network": isolation.network,
            "path": str(seen),
        }
        return {path: record}

    def _keep_log(self, name: str, log: Path) -> str:
        """Copy a log to `<prefix>/var/log/wheels`; return its path, or empty if it cannot be kept."""
        install, now = self.item.install, time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        place = install.prefix.logs / "wheels" / f"{now}-{install.entry.name}-{install.label}-{name}.log"
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, place)
        except OSError:  # a full disk: the error that is shown is the build's
            return ""
        if self.runner.cancel.is_set():  # no error names it
            self.reporter.say(f"{install.entry}: the log was kept as {place}")
        return str(place)


def _require_answer(sdist: LockedRow, file: str, wheel: Path, lock: LockedWheels) -> None:
    """Raise EnvmgrError `sdist-invalid` if the wheel is of another package, or needs what the lock does not have."""
    try:
        needs = metadata_in(wheel).requires
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise EnvmgrError("sdist-invalid", f"{file} built a wheel that cannot be read", context=str(error)) from None
    unmet = [fault.text for fault in unmet_requirements(needs, lock.versions, lock.python, lock.platform, "its wheel")]
    if not is_file_of(sdist, wheel.name) or unmet:
        raise EnvmgrError(
            "sdist-invalid",
            f"{file} built another package than its lock says",
            context=[f"locked: {sdist.name} {sdist.version}", f"built: {wheel.name}", *unmet],
            hint="what it needs depends on the host that builds it: lock it on a host like that",
        )
