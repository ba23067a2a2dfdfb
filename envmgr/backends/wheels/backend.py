"""The wheels backend: locked by uv to one wheel a package, unpacked into a prefix of links over a Python of the catalog."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envmgr.backends import Backend, Built, LoadedLock, LockOptions, LockResult, OwnFolder, read_input
from envmgr.backends.wheels.answers import faults_of
from envmgr.backends.wheels.base import LOST, Base, load_base
from envmgr.backends.wheels.input import Wanted, WheelsInput, read_wanted
from envmgr.backends.wheels.layout import LAYOUT, MADE_AS
from envmgr.backends.wheels.lock import WheelsLock
from envmgr.backends.wheels.lockfile import LOCK_NAME, lock_texts, read_lock
from envmgr.catalog.entries import open_catalog
from envmgr.catalog.lock_rules import LockFacts
from envmgr.catalog.locks import stale_lock
from envmgr.catalog.names import Entry, catalog_of
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.settings import SiteFact
from envmgr.catalog.site import Site
from envmgr.catalog.target import Target
from envmgr.downloads import Fetched, Given
from envmgr.errors import EnvmgrError
from envmgr.nodes import JobOptions
from envmgr.report import Reporter
from envmgr.store.prefix import Item, Prefix
from envmgr.system.run import Runner
from envmgr.system.untrusted_files import LOCK, copy_files
from envmgr.wheels.folders import wheel_cache
from envmgr.wheels.held import require_hashes
from envmgr.wheels.lock import WHEEL_UNPACKED, cuda_majors, cuda_of, describe, glibc_of, newer_than_cuda
from envmgr.wheels.settings import WheelsSettings, explain_settings, indexes_of, require_own_wheels


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWheelsLock(LoadedLock):
    """The wheels of one environment, which is one install, over the Python of `base`. `folder` is the recipe's."""

    content: WheelsLock
    wanted: Wanted
    base: Base
    folder: Path

    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        needs = tuple(each.lock.items(site, target)[-1].install for each in self.below)
        stands_on = [install.digest for install in needs] or [self.base.name, self.base.minor]
        identity: dict[str, object] = {"wheels": self.content.identity(), "base": stands_on, "python": self.base.minor}
        if self.content.sdists:
            identity["sdists"] = {"made_as": MADE_AS, "of": [sdist.identity() for sdist in self.content.sdists]}
        return (Item(self.backend.install(self.entry, identity, site, target), needs),)

    def cuda(self) -> str | None:
        return cuda_of(self.content.versions)

    def facts(self, *, checked: bool = False) -> LockFacts:
        return _facts(self.content, self.base, None if checked else self.wanted)

    def fetch(self, site: Site, runner: Runner, reporter: Reporter, *, given: Given, dry_run: bool = False) -> Fetched:
        from envmgr.wheels.fetch import fetch_wheels

        return fetch_wheels(self.content, str(self.entry), site, runner, reporter, given=given, dry_run=dry_run)

    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:
        from importlib.metadata import version

        from envmgr.backends.wheels.install import install_lock

        facts, expected, made = install_lock(
            self.content, self.wanted, self.base, self.folder, item, site, runner, reporter, jobs=jobs
        )
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
        if items and elsewhere is None and self.content.sdists:
            from envmgr.backends.wheels.source.shut import shut_off

            shut_off(site, runner, reporter)  # before the first byte is downloaded
        LoadedLock.prepare(self, items, site, runner, reporter, elsewhere=elsewhere)

    def pack(self, site: Site, folder: Path) -> Site:
        """The recipe and lock of the base, in a catalog of its own, and what these need."""
        for each in self.below:
            site = each.lock.pack(site, folder)
            place = folder / "below" / each.lock.entry.name / each.lock.entry.version
            copy_files(each.folder, place, LOCK, tree=catalog_of(each.folder))
            site = site.model_copy(update={"catalogs": (folder / "below", *site.catalogs)})
        return site


class WheelsBackend(Backend):
    """Wheels of a Python package index. They are fetched before they are installed, for hosts that may have no network."""

    name = "wheels"
    stages = True
    layout = LAYOUT
    input = WheelsInput
    settings = WheelsSettings

    def faults(self, recipe: Recipe, site: Site) -> list[str]:
        if wrong := super().faults(recipe, site):
            return wrong
        known, named = indexes_of(site), WheelsInput.model_validate(recipe.input).indexes
        return [f"input.indexes: the site has no index `{name}`" for name in named if name not in known]

    def lock(
        self, entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> LockResult:
        from envmgr.backends.wheels.resolve import resolve

        folder = open_catalog(site).find(entry).folder
        wanted = read_wanted(read_input(entry, recipe, WheelsInput), folder)
        base = load_base(wanted.python, entry, site)
        made = resolve(wanted, base, folder, site, runner, reporter, options.places or {})
        return LockResult(
            lock_texts(made),
            describe(made.packages),
            _notes(base, made),
            _facts(made, base, wanted),
            below=() if base.entry is None else (base.entry,),
        )

    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedWheelsLock:
        found, sha256 = read_lock(folder)
        wanted = read_wanted(read_input(entry, recipe, WheelsInput), folder)
        if found.recipe_digest != wanted.digest():
            raise stale_lock(entry, folder / LOCK_NAME, wanted.digest(), found.recipe_digest)
        require_hashes(wanted, found.files, found.python, folder / LOCK_NAME)
        require_own_wheels([each for group in found.groups for each in group], wanted.indexes, site, folder / LOCK_NAME)
        base = load_base(wanted.python, entry, site)
        if base.minor != ".".join(found.python.split(".")[:2]):
            raise EnvmgrError(
                "lock-stale",
                f"{folder / LOCK_NAME} is for Python {found.python}",
                context=f"{base.name}, on which it stands, is Python {base.version} now",
                hint=f"run `envmgr lock {entry}` and commit the result",
            )
        sizes = [file.size for file in found.files if file.size]
        download = sum(sizes) if len(sizes) == len(found.files) else None
        return LoadedWheelsLock(
            backend=self,
            entry=entry,
            sha256=sha256,
            packages=describe(found.packages),
            extensions=tuple(f"{w.name}/{w.version}" for w in found.packages if not w.name.startswith("nvidia-")),
            python=True,
            download=download,
            installed=None if download is None else download * WHEEL_UNPACKED,
            notes=_notes(base, found),
            below=() if base.entry is None else (base.entry,),
            content=found,
            wanted=wanted,
            base=base,
            folder=folder,
        )

    def read_packages(self, folder: Path) -> Mapping[str, str]:
        try:
            return describe(read_lock(folder)[0].packages)
        except EnvmgrError:
            return {}

    def channels(self, recipe: Recipe, site: Site) -> Collection[str]:
        return {*indexes_of(site), *(str(name) for name in recipe.input.get("indexes", ()))}

    def explain(self, site: Site) -> Iterable[SiteFact]:
        return explain_settings(site)

    def folders(self, prefix: Prefix) -> Sequence[OwnFolder]:
        return (OwnFolder(wheel_cache(prefix)),)


def _facts(lock: WheelsLock, base: Base, wanted: Wanted | None) -> LockFacts:
    """With the CUDA of the entry that it stands on: one process loads both. Whether it answers what is `wanted`, where that is given."""
    majors = {major: list(names) for major, names in cuda_majors(lock.versions).items()}
    if majors and base.entry is not None:
        for major, names in (base.entry.lock.facts(checked=True).majors or {}).items():
            majors.setdefault(major, []).extend(f"{name} (of {base.name})" for name in names)
    own = () if wanted is None else tuple(faults_of(lock, wanted, base.version))
    return LockFacts(cuda_of(lock.versions), majors, glibc_of(lock.wheels), own)


def _notes(base: Base, lock: WheelsLock) -> tuple[str, ...]:
    found = [LOST.format(version=base.minor)] if base.entry is None else []
    if newer := newer_than_cuda(lock.versions):
        cuda = cuda_of(lock.versions)
        found.append(
            f"{', '.join(newer)}: newer than its CUDA {cuda}; `constraints` pins it (`{newer[0].split()[0]}=={cuda}.*`)"
        )
    return tuple(found)
