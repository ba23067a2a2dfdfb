"""From locked sources to wheels: each is built twice, in a private folder, and both builds must give the same file."""

from __future__ import annotations

import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from envmgr.backends.wheels.base import SYSTEM_PYTHONS, Base
from envmgr.backends.wheels.input import Wanted
from envmgr.backends.wheels.lock import WheelsLock
from envmgr.backends.wheels.source.asking import require_own_builders
from envmgr.backends.wheels.source.calling import Source, call_child, placed
from envmgr.backends.wheels.source.shut import Shut, say_who, shut_off
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.prefix import Install, Item
from envmgr.store.workfolder import build_folder, work_folder
from envmgr.system.files import remove_tree
from envmgr.system.run import Runner
from envmgr.system.sandbox import PLACE
from envmgr.system.untrusted_files import Kind, digest_of
from envmgr.wheels.folders import wheel_cache
from envmgr.wheels.lock import LockedSdist
from envmgr.wheels.metadata import requires_in
from envmgr.wheels.requirements import checked_all

_WHEEL = Kind("wheel", 1 << 40)


@dataclass(frozen=True, slots=True)
class Made:
    """A wheel that was built; `record` is what the manifest keeps of it."""

    path: Path
    record: Mapping[str, str]


@contextmanager
def made_wheels(
    lock: WheelsLock,
    wanted: Wanted,
    base: Base,
    recipe: Path,
    item: Item,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    jobs: int,
) -> Iterator[tuple[Made, ...]]:
    """The wheels of a lock's sources, for as long as it takes to install them; what they are built from is in the cache.

    `recipe` is the folder in which the patches lie.

    Raises:
        EnvmgrError: `build-network`, `build-folder`, and see `require_own_builders` and `call_child`.
    """
    if not lock.sdists:
        yield ()
        return
    install = item.install
    shut = shut_off(site, runner, reporter)
    say_who(reporter, [sdist.name for sdist in lock.sdists])
    folder = work_folder(site, install)
    with build_folder(install, folder):
        made: list[Made] = []
        with reporter.stage(f"{install.entry} build", total=len(lock.sdists), unit="wheels") as stage:
            for number, sdist in enumerate(lock.sdists):
                tick = partial(stage.update, number, total=len(lock.sdists), detail=sdist.name)
                source, work = _source(sdist, base, recipe, item), folder / sdist.name
                work.mkdir()
                _require_own_builders(sdist, source, work, wanted, base, install, shut, runner, tick)
                made.append(_make(sdist, source, work, install, shut, runner, reporter, tick, jobs=jobs))
            stage.update(len(lock.sdists))
        yield tuple(made)


def _source(sdist: LockedSdist, base: Base, recipe: Path, item: Item) -> Source:
    return Source(
        name=sdist.name,
        version=sdist.version,
        sdist=_cached(sdist, item.install),
        minor=base.minor,
        programs=SYSTEM_PYTHONS,
        patches=[recipe / patch.file for patch in sdist.patches],
        base=item.needs[0].path if item.needs else None,
    )


def _make(
    sdist: LockedSdist,
    source: Source,
    work: Path,
    install: Install,
    shut: Shut,
    runner: Runner,
    reporter: Reporter,
    tick: Callable[[], None],
    *,
    jobs: int,
) -> Made:
    wheels = [*_builders(sdist, install).values()]

    def keep(log: Path) -> str:
        return _keep_log(log, install, sdist.name)

    seen = PLACE if placed(source, work, shut, runner, wheels) else work
    if seen == work:
        reporter.say(
            f"{install.entry}: {sdist.name} is built in {work}, as it cannot be seen elsewhere here: with another user or folder its files may differ"
        )
    answer = call_child(
        "wheel", source, work, shut, runner, wheels=wheels, jobs=jobs, times=2, keep_log=keep, on_tick=tick
    )
    path = work / "wheel0" / answer.wheel
    _require_the_same(sdist, path)
    sha256 = digest_of(path, _WHEEL)
    reporter.say(
        f"{install.entry}: {sdist.name} {sdist.version} was built from its source, twice the same: {path.name}"
    )
    return Made(
        path,
        {
            "name": sdist.name,
            "version": sdist.version,
            "sdist": sdist.file,
            "sdist_sha256": sdist.sha256,
            "wheel": path.name,
            "wheel_sha256": sha256,
            "network": shut.network,
            "path": str(seen),
        },
    )


def _require_own_builders(
    sdist: LockedSdist,
    source: Source,
    work: Path,
    wanted: Wanted,
    base: Base,
    install: Install,
    shut: Shut,
    runner: Runner,
    tick: Callable[[], None],
) -> None:
    """Each question has a folder in `work`, of which nothing stays."""

    def ask(question: str, wheels: Sequence[Path]) -> Sequence[str]:
        place = work / question
        place.mkdir()
        answer = call_child(question, source, place, shut, runner, wheels=wheels, on_tick=tick)
        remove_tree(place)
        return answer.requires

    require_own_builders(sdist, _builders(sdist, install), wanted, base.version, install.entry, ask)


def _builders(sdist: LockedSdist, install: Install) -> dict[str, Path]:
    cache = wheel_cache(install.prefix)
    return {wheel.name: cache / wheel.sha256 / wheel.file for wheel in sdist.build}


def _require_the_same(sdist: LockedSdist, wheel: Path) -> None:
    """That it is the package, and needs the packages, that the lock says. EnvmgrError `sdist-invalid`."""
    try:
        name, version, *_ = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename as error:
        raise EnvmgrError("sdist-invalid", f"{sdist.file} built a file that is no wheel", context=str(error)) from None
    try:
        needs = requires_in(wheel)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise EnvmgrError(
            "sdist-invalid", f"{sdist.file} built a wheel that cannot be read", context=str(error)
        ) from None
    if (name, version) != (sdist.name, Version(sdist.version)) or sorted(needs) != sorted(checked_all(sdist.requires)):
        raise EnvmgrError(
            "sdist-invalid",
            f"{sdist.file} built another package than it told when it was locked",
            context=[f"locked: {sdist.name} {sdist.version}", *sdist.requires, f"built: {name} {version}", *needs],
            hint="what it needs depends on the host that builds it: lock it on a host like that",
        )


def _keep_log(log: Path, install: Install, name: str) -> str:
    """Under `<prefix>/var/log/wheels`; its path, or empty where it cannot be kept."""
    now = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    place = install.prefix.logs / "wheels" / f"{now}-{install.entry.name}-{install.label}-{name}.log"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, place)
    except OSError:  # a full disk: the error that is told is the build's
        return ""
    return str(place)


def _cached(sdist: LockedSdist, install: Install) -> Path:
    return wheel_cache(install.prefix) / sdist.sha256 / sdist.file
