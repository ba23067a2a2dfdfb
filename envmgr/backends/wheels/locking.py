"""Locking of a wheels recipe: first the packages that are built from source, then the other wheels.

For a source this runs its authors' code (hooks of PEP 517), as a build does: as the build user, without a network, over
the entry's Python if that is built, else over one of this host with the same minor version.
"""

from __future__ import annotations

import os
import platform
import stat
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from packaging.pylock import Pylock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import ValidationError

from envmgr.backends.wheels.build_call import BuildReply, SourceBuild
from envmgr.backends.wheels.input import SYSTEM_PYTHONS, Base, WheelsQuestion
from envmgr.backends.wheels.lock import WheelsLock
from envmgr.catalog.names import catalog_of
from envmgr.catalog.site import Site, read_target
from envmgr.downloads import Download
from envmgr.downloads.bring import bring
from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Reporter, Stage
from envmgr.store.isolation import Isolation, isolate, warn_of_root
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner
from envmgr.system.safe_paths import change_tree
from envmgr.system.scratch import scratch_folder
from envmgr.system.untrusted_files import BESIDE, copy_file
from envmgr.system.users import Account, runs_for_root
from envmgr.wheels.answers import prerelease_errors
from envmgr.wheels.fetch import wheel_failure
from envmgr.wheels.locked import LockedFile, LockedPatch, LockedSdist, LockedWheel
from envmgr.wheels.metadata import Metadata
from envmgr.wheels.resolve import FoundWheel, Resolution, ask_indexes, choose_wheels, find_missing_wheels
from envmgr.wheels.settings import wheel_cache
from envmgr.wheels.uv import ONLY_WHEELS, PYLOCK


def resolve_recipe(
    wanted: WheelsQuestion,
    base: Base,
    recipe: Path,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    places: Mapping[str, str],
    keep: WheelsLock | None = None,
    upgrade: Collection[str] = (),
) -> tuple[WheelsLock, tuple[EnvmgrError, ...]]:
    """Resolve for the Python of `base`; return also the problems that a person has to decide. `recipe` is the recipe's
    folder.

    `places` maps an index to the URL or folder to ask instead, this once. The sources of `keep` are taken as they are,
    and of its wheels no other version. With `upgrade`, these packages move with what they need, and the others of `keep`
    stay where they fit.

    Raises:
        EnvmgrError: as `find_missing_wheels` and `_lock_sources`;
            InputError: `build-unasked`.
    """
    asked = wanted
    if keep is not None:
        asked = wanted.keeping(keep.packages, upgrade) if upgrade else wanted.held_to(keep.versions)
    with (
        ask_indexes(asked, base.version, site, runner, reporter, places) as resolution,
        reporter.stage("resolve", unit="packages") as stage,
    ):
        sdists = () if keep is None else keep.sdists
        if keep is not None and not upgrade:
            resolution.know([Metadata(name=s.name, version=s.version, requires=s.requires) for s in sdists])
        elif wanted.build:
            sdists = _lock_sources(wanted, base, recipe, resolution, stage, old=sdists)
        found = find_missing_wheels(resolution, stage)
        if unasked := [name for name in wanted.build if name not in found.needed]:
            raise InputError(
                "build-unasked",
                f"input.build names {', '.join(unasked)}, which nothing asks for",
                hint="add it to `requirements`, or take it out of `build`",
            )
        lock = WheelsLock(recipe_digest=wanted.digest(), sdists=sdists, **dict(found.lock))
    return lock, (*found.problems, *prerelease_errors(wanted, lock.packages), *_other_versions(lock, wanted))


def _other_versions(lock: WheelsLock, wanted: WheelsQuestion) -> Iterator[EnvmgrError]:
    """Yield an error for each package that a build requires, by the recipe, in another version than the entry has it."""
    for sdist in lock.sdists:
        asked = {canonicalize_name(Requirement(row).name) for row in wanted.build_requires.get(sdist.name, ())}
        for wheel in sdist.build:
            version = lock.versions.get(wheel.name)
            if wheel.name in asked and version not in (None, wheel.version):
                yield InputError(
                    "build-requires-differ",
                    f"{sdist.name} would be built with {wheel.name} {wheel.version}, and the entry has {version}",
                    hint=f"`build_requires: {{{sdist.name}: [{wheel.name}=={version}]}}` builds it with that one; or ask "
                    f"for `{wheel.name}=={wheel.version}`",
                )


def _lock_sources(
    wanted: WheelsQuestion, base: Base, recipe: Path, resolution: Resolution, stage: Stage, old: Iterable[LockedSdist]
) -> tuple[LockedSdist, ...]:
    """Return one source for each name of `wanted.build`: the newest that fits, or the one that is kept, with the wheels
    that build it; those of `old` are kept.

    From here on `resolution` knows what they need: uv resolves the rest beside them, and builds nothing.

    Raises:
        EnvmgrError: `lock-needs-python`, `build-network`; as a resolution or a download fails; see `SourceBuild.ask`.
    """
    site, reporter = resolution.site, resolution.reporter
    account = runs_for_root(site.build_user, site.prefix, mask=site.policies.mask)
    warn_of_root(reporter, wanted.build, account)
    isolation = isolate(site, resolution.runner, reporter, account)
    built = {sdist.name: sdist.build for sdist in old}
    locker = _Locker(wanted, recipe, resolution, stage, account, isolation, built, *_python(base, wanted, site))
    locked = [locker.lock(name) for name in wanted.build]
    resolution.know([metadata for _, metadata in locked])
    return tuple(sdist for sdist, _ in locked)


@dataclass(frozen=True, slots=True)
class _Locker:
    """The locking of one recipe.

    `built` are the wheels that each source of the old lock is built with, which stay where they fit. `installed` is the
    install of the Python, or None; then `programs` is a folder of this host that has it.
    """

    wanted: WheelsQuestion
    recipe: Path
    resolution: Resolution
    stage: Stage
    account: Account | None
    isolation: Isolation
    built: Mapping[str, Sequence[LockedWheel]]
    installed: Path | None
    programs: Path

    def lock(self, name: str) -> tuple[LockedSdist, Metadata]:
        """Return the source of a package, and the metadata of its wheel."""
        found, url = self._find(name)
        patches = [patch for patch in self.wanted.patches if patch.package == name]
        with scratch_folder("sdists", self.account) as work:
            files = work / "files"
            files.mkdir()
            sdist = self._fetch([(found, url)], files, name)[0]
            for patch in patches:
                copy_file(self.recipe / patch.file, files / patch.file, BESIDE, tree=catalog_of(self.recipe))
            source = SourceBuild(
                name=name,
                version=found.version,
                sdist=sdist,
                patches=[files / patch.file for patch in patches],
                minor=".".join(self.resolution.python.split(".")[:2]),
                base=self.installed,
                programs=self.programs,
                cache=files,
                isolation=self.isolation,
                runner=self.resolution.runner,
                account=self.account,
            )
            also = self.wanted.build_requires.get(name, ())
            held = self._held(also)
            rows = (*self._ask("system", source, work).requires, *also)
            wheels = self._wheels(name, [*rows, *held])
            self._fetch(wheels, files, name)
            more = self._ask("requires", source, work, wheels).requires
            # Resolved again as a whole: a row of the hook may need other versions of what is already chosen.
            if more:
                wheels = self._wheels(name, [*rows, *more, *held])
                self._fetch(wheels, files, name)
            metadata = self._ask("metadata", source, work, wheels).metadata
        if metadata is None or metadata.name != name or Version(metadata.version) != Version(found.version):
            says = "nothing" if metadata is None else f"{metadata.name} {metadata.version}"
            raise EnvmgrError(
                "sdist-invalid",
                f"{found.file} says that it is {says}",
                hint="a patch (`patches` in the recipe) can say its version where its build asks git for it",
            )
        locked = found.model_copy(
            update={
                "requires": metadata.requires,
                "build": tuple(sorted((wheel for wheel, _ in wheels), key=lambda wheel: wheel.name)),
                "patches": tuple(LockedPatch(file=patch.file, sha256=patch.sha256) for patch in patches),
            }
        )
        return locked, metadata

    def _find(self, name: str) -> tuple[LockedSdist, str]:
        """Return the newest source that fits what the recipe says of it, and its URL."""
        rows = [row for row in self.wanted.requirements if canonicalize_name(Requirement(row).name) == name] or [name]
        # `--only-binary :all:` is for all other packages, and `--no-binary` for this one.
        words = ["--no-deps", *ONLY_WHEELS, "--no-binary", name]
        text = self.resolution.compile([*words, *PYLOCK], rows)
        package = next(p for p in Pylock.from_dict(tomllib.loads(text)).packages if canonicalize_name(p.name) == name)
        sdist = package.sdist
        if sdist is None:
            raise EnvmgrError("unsolvable", f"no index has a source of {name} {package.version}")
        if "sha256" not in sdist.hashes:
            raise EnvmgrError(
                "wheel-unhashed",
                f"the index gives no sha256 of {sdist.filename}",
                hint="ask an index that has hashes, or a folder",
            )
        try:
            locked = LockedSdist(
                name=name,
                version=str(package.version),
                file=sdist.filename,
                sha256=sdist.hashes["sha256"],
                size=sdist.size,
                index=self.resolution.origins(rows, words)(name),
                build=(),
                uploaded="" if sdist.upload_time is None else sdist.upload_time.isoformat(),
            )
        except ValidationError:
            raise EnvmgrError("sdist-invalid", f"{sdist.filename} is no archive that is unpacked here") from None
        self.resolution.refuse_unhashed({name: (locked.file, locked.index)})
        return locked, str(sdist.url or Path(str(sdist.path)).absolute().as_uri())

    def _held(self, also: Sequence[str]) -> list[str]:
        """Return the version that the entry will have of each package of `also`, as far as its wheels decide it.

        A build that compiles against another torch than the entry's is of no use, and such a wheel is a gigabyte.
        """
        names = {canonicalize_name(Requirement(row).name) for row in also}
        rows = [
            row for row in self.wanted.requirements if canonicalize_name(Requirement(row).name) not in self.wanted.build
        ]
        if not names:
            return []
        try:
            text = self.resolution.compile([*ONLY_WHEELS, *PYLOCK], [*rows, *also])
        except EnvmgrError as error:
            if error.reference != "unsolvable":
                raise
            return []  # some package needs the source, or `also` is another version: that is decided when all is known
        packages = Pylock.from_dict(tomllib.loads(text)).packages
        return [f"{each.name}=={each.version}" for each in packages if canonicalize_name(each.name) in names]

    def _wheels(self, name: str, rows: Sequence[str]) -> list[FoundWheel]:
        """Return the wheels that build it, under the constraints of the recipe."""
        if not rows:
            return []
        asks = replace(self.resolution, wanted=self.resolution.wanted.keeping(self.built.get(name, ())))
        text = asks.compile([*ONLY_WHEELS, *PYLOCK], rows)
        return asks.with_index([*choose_wheels(text, asks.python, self.wanted.platform, asks.wanted)], rows)

    def _fetch(self, files: Sequence[tuple[LockedFile, str]], folder: Path, label: str) -> list[Path]:
        """Fetch and check the files; those in the prefix are copied. `policies.min_free` bytes stay free here, too."""
        site = self.resolution.site
        cache = wheel_cache(Prefix(site.prefix))
        given = {file.sha256: path for file, _ in files if (path := file.cached(cache)).is_file()}
        bring(
            [Download(file.file, file.sha256, (url,), file.size) for file, url in files],
            folder,
            site.policies,
            self.resolution.runner,
            self.resolution.reporter,
            label=label,
            failure=_failure,
            given=given,
        )
        return [file.cached(folder) for file, _ in files]

    def _ask(self, question: str, source: SourceBuild, folder: Path, found: Sequence[FoundWheel] = ()) -> BuildReply:
        work = folder / question
        work.mkdir()
        if self.account is not None:
            _give(folder, self.account)
        tell = partial(self.stage.update, 0, detail=f"{source.name}, its build is asked")
        return source.ask(question, work, [wheel for wheel, _ in found], on_tick=tell)


def _failure(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError:
    """Return `wheel_failure`, with another hint for a full disk: it is not the prefix's."""
    error = wheel_failure(event, request)
    if error.reference == "disk-full":
        error.hint = (
            "name a folder with more room in $TMPDIR, which the build user may enter, and run the same command again"
        )
    return error


def _give(folder: Path, account: Account) -> None:
    """Give away only what is root's own: the other user has written in the tree since the last time, and may write now.

    A file with a second name may be one elsewhere, and stays.
    """

    def ours(status: os.stat_result) -> bool:
        return status.st_uid == os.geteuid() and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1)

    change_tree(folder, owner=account.uid, group=account.gid, only=ours)


def _python(base: Base, wanted: WheelsQuestion, site: Site) -> tuple[Path | None, Path]:
    """Return the install of the Python, or None and the folder of one of this host.

    Raise EnvmgrError `lock-needs-python`.
    """
    names = ", ".join(wanted.build)
    if (wants := wanted.platform.partition("-")[0]) != platform.machine():
        raise EnvmgrError(
            "lock-needs-python",
            f"{names} cannot be locked here: this host is {platform.machine()}, the recipe's platform {wants}",
            hint="its build is asked what it needs: lock it on a host of that kind",
        )
    if base.entry is not None:
        install = base.entry.lock.items(site, read_target(site.cpu_level))[-1].install
        if install.exists():
            return install.path, SYSTEM_PYTHONS
    for programs in (SYSTEM_PYTHONS, Path(sys.base_prefix) / "bin"):
        if (programs / f"python{base.minor}").is_file():
            return None, programs
    by_entry, by_host = f"`envmgr build --no-publish {base.name}` makes it", f"install python{base.minor} on this host"
    raise EnvmgrError(
        "lock-needs-python",
        f"there is no Python {base.minor} here to ask the build of {names} what it needs",
        context=f"looked for the install of {base.name}, {SYSTEM_PYTHONS} and {sys.base_prefix}",
        hint=by_entry if base.entry else by_host,
    )
