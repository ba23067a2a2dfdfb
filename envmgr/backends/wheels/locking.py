"""Locking of a wheels recipe: first the packages that are built from source, then the other wheels.

For a source this runs its authors' code (hooks of PEP 517), as a build does: as the build user, without a network, over
the entry's Python if that is built, else over one of this host with the same minor version.
"""

from __future__ import annotations

import os
import platform
import re
import stat
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from envmgr.backends.wheels.build_call import BuildReply, SourceBuild
from envmgr.backends.wheels.input import SYSTEM_PYTHONS, BasePython, WheelsQuestion
from envmgr.backends.wheels.lock import WheelsLock
from envmgr.catalog.names import catalog_of
from envmgr.catalog.site import Site, read_target
from envmgr.downloads import Download, cached_file
from envmgr.downloads.bring import Fetching, bring
from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Reporter, Stage
from envmgr.store.isolation import Isolation, isolate, warn_of_root
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner
from envmgr.system.safe_paths import change_tree
from envmgr.system.scratch import scratch_folder
from envmgr.system.untrusted_files import BESIDE, copy_file
from envmgr.system.users import Account, runs_for_root
from envmgr.wheels.fetch import wheel_failure
from envmgr.wheels.lock_checks import prerelease_errors
from envmgr.wheels.lockfile import LockedWheels
from envmgr.wheels.metadata import Metadata
from envmgr.wheels.resolve import ONLY_WHEELS, FoundFile, Resolution, ask_indexes, find_missing_wheels
from envmgr.wheels.settings import wheel_cache


def resolve_recipe(
    wanted: WheelsQuestion,
    base: BasePython,
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
        # Only their builds know what sources need: with sources, all rows of the lock are asked for.
        pinned = keep.wheels.versions.items() if keep.builds and not upgrade else ()
        rows = (*wanted.requirements, *(f"{name}=={version}" for name, version in pinned))
        asked = wanted.model_copy(update={"requirements": rows}).again(keep.wheels, upgrade)
    with (
        ask_indexes(asked, base.version, site, runner, reporter, places) as resolution,
        reporter.stage("resolve", unit="packages") as stage,
    ):
        sources, builds = list[FoundFile](), {} if keep is None else keep.builds
        if keep is not None and not upgrade:
            resolution.know([Metadata(name=row.name, version=row.version) for row in keep.sources])
            sources = [FoundFile(row, "", "", None) for row in keep.sources]
        elif wanted.build:
            sources, builds = _lock_sources(wanted, base, recipe, resolution, stage, old=builds)
        found = find_missing_wheels(resolution, stage, sources)
        if unasked := [name for name in wanted.build if name not in found.needed]:
            raise InputError(
                "build-unasked",
                f"input.build names {', '.join(unasked)}, which nothing asks for",
                hint="add it to `requirements`, or take it out of `build`",
            )
    digest = {"recipe": wanted.digest()}
    lock = WheelsLock(
        found.lock.model_copy(update=digest), {name: each.model_copy(update=digest) for name, each in builds.items()}
    )
    return lock, (*found.problems, *prerelease_errors(wanted, lock.wheels.rows), *_other_versions(lock, wanted))


def _other_versions(lock: WheelsLock, wanted: WheelsQuestion) -> Iterator[EnvmgrError]:
    """Yield an error for each package that a build requires, by the recipe, in another version than the entry has it."""
    for source, build in lock.builds.items():
        asked = {canonicalize_name(Requirement(row).name) for row in wanted.build_requires.get(source, ())}
        for name in sorted(asked & build.versions.keys() & lock.wheels.versions.keys()):
            built_with, version = build.versions[name], lock.wheels.versions[name]
            if built_with != version:
                yield InputError(
                    "build-requires-differ",
                    f"{source} would be built with {name} {built_with}, and the entry has {version}",
                    hint=f"`build_requires: {{{source}: [{name}=={version}]}}` builds it with that one; or ask for "
                    f"`{name}=={built_with}`",
                )


def _lock_sources(
    wanted: WheelsQuestion,
    base: BasePython,
    recipe: Path,
    resolution: Resolution,
    stage: Stage,
    old: Mapping[str, LockedWheels],
) -> tuple[list[FoundFile], Mapping[str, LockedWheels]]:
    """Return one source for each name of `wanted.build`: the newest that fits, or the one that is kept; and the wheels
    that build each. Those of `old` are kept.

    From here on `resolution` knows what they need: uv resolves the rest beside them, and builds nothing.

    Raises:
        EnvmgrError: `lock-needs-python`, `build-network`; as a resolution or a download fails; see `SourceBuild.ask`.
    """
    site, reporter = resolution.site, resolution.reporter
    account = runs_for_root(site.build_user, site.prefix, mask=site.policies.mask)
    warn_of_root(reporter, wanted.build, account)
    isolation = isolate(site, resolution.runner, reporter, account)
    locker = _Locker(wanted, recipe, resolution, stage, account, isolation, old, _python(base, wanted, site))
    locked = {name: locker.lock(name) for name in wanted.build}
    resolution.know([metadata for _, _, metadata in locked.values()])
    builds = {name: resolution.lock_of(wheels) for name, (_, wheels, _) in locked.items()}
    return [source for source, _, _ in locked.values()], builds


@dataclass(frozen=True, slots=True)
class _Locker:
    """The locking of one recipe.

    `built` are the wheels that each source of the old lock is built with, which stay where they fit.
    """

    wanted: WheelsQuestion
    recipe: Path
    resolution: Resolution
    stage: Stage
    account: Account | None
    isolation: Isolation
    built: Mapping[str, LockedWheels]
    python: Path

    def lock(self, name: str) -> tuple[FoundFile, list[FoundFile], Metadata]:
        """Return the newest source of a package that fits what the recipe says of it, the wheels that build it, and the metadata of its wheel."""
        rows = [row for row in self.wanted.requirements if canonicalize_name(Requirement(row).name) == name] or [name]
        found = next(each for each in self.resolution.sources([name], rows) if each.row.name == name)
        if not re.fullmatch(r"[A-Za-z0-9_.!+-]+\.(tar\.gz|zip)", found.file):
            raise EnvmgrError("sdist-invalid", f"{found.file} is no archive that is unpacked here")
        self.resolution.refuse_unhashed([found])
        patches = [patch for patch in self.wanted.patches if patch.package == name]
        with scratch_folder("sdists", self.account) as work:
            files = work / "files"
            files.mkdir()
            self._fetch([found], files, name)
            for patch in patches:
                copy_file(self.recipe / patch.file, files / patch.file, BESIDE, tree=catalog_of(self.recipe))
            source = SourceBuild(
                row=found.row,
                sdist=files / found.row.sha256 / found.file,
                patches=[files / patch.file for patch in patches],
                python=self.python,
                cache=files,
                isolation=self.isolation,
                runner=self.resolution.runner,
                account=self.account,
            )
            also = self.wanted.build_requires.get(name, ())
            held = self._held(also)
            asked = (*self._ask("system", source, work).requires, *also)
            wheels = self._wheels(name, [*asked, *held], files)
            more = self._ask("requires", source, work, wheels).requires
            # Resolved again as a whole: a row of the hook may need other versions of what is already chosen.
            if more:
                wheels = self._wheels(name, [*asked, *more, *held], files)
            metadata = self._ask("metadata", source, work, wheels).metadata
        if metadata is None or metadata.name != name or Version(metadata.version) != Version(found.row.version):
            says = "nothing" if metadata is None else f"{metadata.name} {metadata.version}"
            raise EnvmgrError(
                "sdist-invalid",
                f"{found.file} says that it is {says}",
                hint="a patch (`patches` in the recipe) can say its version where its build asks git for it",
            )
        return found, wheels, metadata

    def _held(self, also: Sequence[str]) -> list[str]:
        """Return the version that the entry will have of each package of `also`, as far as its wheels decide it.

        A build that compiles against another torch than the entry's is of no use, and such a wheel is a gigabyte.
        """
        names = {canonicalize_name(Requirement(row).name) for row in also}
        built, asked = self.wanted.build, self.wanted.requirements
        rows = [row for row in asked if canonicalize_name(Requirement(row).name) not in built]
        if not names:
            return []
        try:
            packages = self.resolution.ask(ONLY_WHEELS, [*rows, *also]).get("packages", ())
        except EnvmgrError as error:
            if error.reference != "unsolvable":
                raise
            return []  # some package needs the source, or `also` is another version: that is decided when all is known
        return [f"{each['name']}=={each['version']}" for each in packages if canonicalize_name(each["name"]) in names]

    def _wheels(self, name: str, rows: Sequence[str], folder: Path) -> list[FoundFile]:
        """Fetch and return the wheels that build it, under the constraints of the recipe."""
        if not rows:
            return []
        old = self.built[name].rows if name in self.built else ()
        asks = replace(self.resolution, wanted=self.resolution.wanted.keeping(old))
        found = asks.wheels(rows)
        asks.refuse_unhashed(found)
        self._fetch(found, folder, name)
        return found

    def _fetch(self, files: Sequence[FoundFile], folder: Path, label: str) -> None:
        """Fetch and check the files; those in the prefix are copied. `policies.min_free` bytes stay free here, too."""
        site = self.resolution.site
        cache = wheel_cache(Prefix(site.prefix))
        given = {each.row.sha256: path for each in files if (path := cached_file(cache, each.row.sha256))}
        downloads = [Download(each.file, each.row.sha256, (each.url,), each.size) for each in files]
        how = Fetching(site.policies, self.resolution.runner, self.resolution.reporter, label)
        try:
            bring(downloads, folder, wheel_failure(label), how, given)
        except EnvmgrError as error:
            if error.reference == "disk-full":  # it is not the prefix's
                error.hint = "name a folder with more room in $TMPDIR, which the build user may enter, and run the same command again"
            raise

    def _ask(self, question: str, source: SourceBuild, folder: Path, found: Sequence[FoundFile] = ()) -> BuildReply:
        work = folder / question
        work.mkdir()
        if self.account is not None:
            _give(folder, self.account)
        tell = partial(self.stage.update, 0, detail=f"{source.row.name}, its build is asked")
        return source.ask(question, work, [each.row for each in found], on_tick=tell)


def _give(folder: Path, account: Account) -> None:
    """Give away only what is root's own: the other user has written in the tree since the last time, and may write now.

    A file with a second name may be one elsewhere, and stays.
    """

    def ours(status: os.stat_result) -> bool:
        return status.st_uid == os.geteuid() and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1)

    change_tree(folder, owner=account.uid, group=account.gid, only=ours)


def _python(base: BasePython, wanted: WheelsQuestion, site: Site) -> Path:
    """Return the install of the Python, or one of this host.

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
            return install.path
    for programs in (SYSTEM_PYTHONS, Path(sys.base_prefix) / "bin"):
        if (python := programs / f"python{base.minor}").is_file():
            return python
    by_entry, by_host = f"`envmgr build --no-publish {base.name}` makes it", f"install python{base.minor} on this host"
    raise EnvmgrError(
        "lock-needs-python",
        f"there is no Python {base.minor} here to ask the build of {names} what it needs",
        context=f"looked for the install of {base.name}, {SYSTEM_PYTHONS} and {sys.base_prefix}",
        hint=by_entry if base.entry else by_host,
    )
