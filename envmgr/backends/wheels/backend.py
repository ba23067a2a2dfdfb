"""The wheels backend: locked by uv to one wheel a package, unpacked into a prefix of links over a Python of the
catalog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envmgr.backends import Backend, Built, LoadedLock, LockOptions, LockResult, OwnFolder, read_input
from envmgr.backends.wheels.input import (
    LOST,
    BasePython,
    WheelsInput,
    WheelsQuestion,
    load_base,
    question_faults,
    read_question,
)
from envmgr.backends.wheels.lock import BUILD_FOLDER, WheelsLock, build_lock, read_wheels_lock, wheels_lock_texts
from envmgr.catalog.entries import open_catalog
from envmgr.catalog.lock_checks import LockFacts
from envmgr.catalog.locks import require_answer, stale_lock
from envmgr.catalog.names import Entry, catalog_of
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.settings import SiteFact
from envmgr.catalog.site import Site, Target
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.prefix import Item, Prefix
from envmgr.system.run import Runner
from envmgr.system.untrusted_files import BESIDE, LOCK, copy_files, read_bytes
from envmgr.wheels.lock_checks import require_asked_urls, unmet_requirements
from envmgr.wheels.lockfile import WHEEL_UNPACKED, WHEELS_LOCK, LockedWheels, read_wheels
from envmgr.wheels.settings import WheelsSettings, explain_indexes, indexes_of, wheel_cache
from envmgr.wheels.target import cuda_majors, cuda_of_wheels, glibc_of, newer_than_cuda

if TYPE_CHECKING:
    from envmgr.downloads.fetch import DownloadSet
    from envmgr.nodes.jobs import JobOptions
    from envmgr.store.parts import Part

# 1: a prefix of links over the base's Python, wheels unpacked by installer 1.1, compiled, marked, read-only.
_LAYOUT = 1
# How a wheel is built from its source: the environment of the build, its order, its time. Counts up when its
# bytes change. 3: by uv, at one path, on a host of one name, where mounts can be had.
_BUILT_AS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWheelsLock(LoadedLock):
    """The wheels of one environment, which is one install, over the Python of `base`. `folder` is the recipe's."""

    content: WheelsLock
    wanted: WheelsQuestion
    base: BasePython
    folder: Path

    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        needs = tuple(each.lock.items(site, target)[-1].install for each in self.below)
        # The system's Python has no digest: its name and minor version stand for it.
        stands_on = [install.digest for install in needs] or [self.base.name, self.base.minor]
        wheels, builds = self.content.wheels, self.content.builds
        identity: dict[str, object] = {"wheels": wheels.identity(), "base": stands_on, "python": self.base.minor}
        if builds:
            patches = [[each.package, each.sha256] for each in self.wanted.patches]
            with_what = {name: each.identity() for name, each in builds.items()}
            identity["sources"] = {"made_as": _BUILT_AS, "with": with_what, "patches": patches}
        return (Item(self.backend.install(self.entry, identity, site, target), needs),)

    def solve_again(self, site: Site, runner: Runner, reporter: Reporter, options: LockOptions) -> Mapping[str, str]:
        from envmgr.backends.wheels.locking import resolve_recipe

        places = options.places or {}
        found, _ = resolve_recipe(
            self.wanted, self.base, self.folder, site, runner, reporter, places, keep=self.content
        )
        return found.wheels.describe()

    def texts(self, recipe: Recipe) -> Mapping[str, str]:
        files = WheelsInput.model_validate(recipe.input).files
        tree = catalog_of(self.folder)
        found = {name: read_bytes(self.folder / name, BESIDE, tree=tree).decode(errors="replace") for name in files}
        return {**found, **wheels_lock_texts(self.content)}

    def downloads(self, site: Site) -> Sequence[DownloadSet]:
        from envmgr.wheels.fetch import wheel_files  # slow to load, and only needed where files are fetched

        return (wheel_files(self.content.rows, self.wanted.indexes, str(self.entry), site),)

    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:
        from importlib.metadata import version

        from envmgr.backends.wheels.install import WheelsInstall

        patches: dict[str, list[Path]] = {}
        for each in self.wanted.patches:
            patches.setdefault(str(each.package), []).append(self.folder / each.file)
        files = self.fetch(site, runner, reporter, given={}).paths
        install = WheelsInstall(self.content, files, self.base, patches, item, site, runner, reporter, jobs)
        facts, expected, made = install.make()
        return Built(facts, expected, {"installer": version("installer")}, made=made)

    def prepare(
        self,
        items: Sequence[Item],
        site: Site,
        runner: Runner,
        reporter: Reporter,
        *,
        elsewhere: JobOptions | None = None,
    ) -> None:
        if items and elsewhere is None and self.content.builds:
            from envmgr.store.isolation import isolate

            isolate(site, runner, reporter)  # before the first byte is downloaded
        LoadedLock.prepare(self, items, site, runner, reporter, elsewhere=elsewhere)

    def pack(self, site: Site, folder: Path) -> Site:
        """Copy what the sources are built with; and recipe and lock of the base to a catalog of its own, with what these
        need.
        """
        if self.content.builds:
            place = folder / "lock" / BUILD_FOLDER
            copy_files(self.folder / BUILD_FOLDER, place, LOCK, tree=catalog_of(self.folder))
        for each in self.below:
            site = each.lock.pack(site, folder)
            place = folder / "below" / each.lock.entry.name / each.lock.entry.version
            copy_files(each.folder, place, LOCK, tree=catalog_of(each.folder))
            site = site.model_copy(update={"catalogs": (folder / "below", *site.catalogs)})
        return site


class WheelsBackend(Backend):
    """Wheels of a Python package index.

    They are fetched before they are installed, for hosts that may have no network.
    """

    name = "wheels"
    layout = _LAYOUT
    input = WheelsInput
    settings = WheelsSettings
    upgrades = True

    def faults(self, recipe: Recipe, site: Site) -> list[str]:
        if wrong := super().faults(recipe, site):
            return wrong
        known, named = indexes_of(site), WheelsInput.model_validate(recipe.input).indexes
        return [f"input.indexes: the site has no index `{name}`" for name in named if name not in known]

    def missing(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> Iterable[EnvmgrError]:
        wanted = WheelsInput.model_validate(recipe.input)
        yield from question_faults(wanted, folder)
        try:
            load_base(wanted.python, entry, site)
        except EnvmgrError as error:
            yield error

    def lock(
        self, entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> LockResult:
        from envmgr.backends.wheels.locking import resolve_recipe

        folder = open_catalog(site).find(entry).folder
        wanted = read_question(read_input(entry, recipe, WheelsInput), folder)
        base = load_base(wanted.python, entry, site)
        keep = read_wheels_lock(folder, wanted.build)[0] if options.upgrade else None
        found, problems = resolve_recipe(
            wanted, base, folder, site, runner, reporter, options.places or {}, keep=keep, upgrade=options.upgrade
        )
        return LockResult(
            wheels_lock_texts(found),
            found.wheels.describe(),
            _notes(base, found.wheels),
            _facts(found.wheels, base, wanted),
            below=() if base.entry is None else (base.entry,),
            problems=problems,
            optional=(build_lock("*"),),
        )

    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedWheelsLock:
        wanted = read_question(read_input(entry, recipe, WheelsInput), folder)
        path = folder / WHEELS_LOCK

        def answers(each: LockedWheels) -> None:
            require_answer(entry, path, each.describe(), wanted.digest(), each.recipe)
            require_asked_urls(each, wanted.requirements, path)

        found, sha256 = read_wheels_lock(folder, wanted.build, answers)
        base = load_base(wanted.python, entry, site)
        if base.minor != ".".join(found.wheels.python.split(".")[:2]):
            differing = [f"{base.name}, on which it stands, is Python {base.version} now"]
            raise stale_lock(entry, path, found.wheels.describe(), differing, f"is for Python {found.wheels.python}")
        return LoadedWheelsLock(
            backend=self,
            entry=entry,
            sha256=sha256,
            packages=found.wheels.describe(),
            # NVIDIA's wheels are libraries, which users do not look for.
            extensions=tuple(f"{r.name}/{r.version}" for r in found.wheels.rows if not r.name.startswith("nvidia-")),
            python=True,
            download=found.size,
            installed=None if found.size is None else found.size * WHEEL_UNPACKED,
            notes=_notes(base, found.wheels),
            facts=_facts(found.wheels, base, wanted),
            below=() if base.entry is None else (base.entry,),
            content=found,
            wanted=wanted,
            base=base,
            folder=folder,
        )

    def parts(self, provenance: Mapping[str, Any], texts: Mapping[str, str]) -> Iterable[Part]:  # noqa: ARG002 - the lock says all
        from envmgr.wheels.parts import wheel_parts

        return wheel_parts(read_wheels(texts[WHEELS_LOCK], WHEELS_LOCK)[0].rows)

    def channels(self, recipe: Recipe, site: Site) -> Collection[str]:
        return {*indexes_of(site), *(str(name) for name in recipe.input.get("indexes", ()))}

    def explain(self, site: Site) -> Iterable[SiteFact]:
        return explain_indexes(site)

    def folders(self, prefix: Prefix) -> Sequence[OwnFolder]:
        return (OwnFolder(wheel_cache(prefix)),)


def _facts(lock: LockedWheels, base: BasePython, wanted: WheelsQuestion) -> LockFacts:
    """Return the facts, with the CUDA of the entry below it: one process loads both."""
    majors = {major: list(names) for major, names in cuda_majors(lock.versions).items()}
    if majors and base.entry is not None:
        for major, names in (base.entry.lock.facts.majors or {}).items():
            majors.setdefault(major, []).extend(f"{name} (of {base.name})" for name in names)
    unmet = unmet_requirements(wanted.requirements, lock.versions, base.version, wanted.platform)
    return LockFacts(cuda_of_wheels(lock.versions), majors, glibc_of(lock.platform), tuple(unmet))


def _notes(base: BasePython, lock: LockedWheels) -> tuple[str, ...]:
    found = [LOST.format(version=base.minor)] if base.entry is None else []
    if newer := newer_than_cuda(lock.versions):
        cuda = cuda_of_wheels(lock.versions)
        found.append(
            f"{', '.join(newer)}: newer than its CUDA {cuda}; `constraints` pins it (`{newer[0].split()[0]}=={cuda}.*`)"
        )
    return tuple(found)
