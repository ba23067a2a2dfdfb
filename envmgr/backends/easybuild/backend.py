"""The EasyBuild backend: every easyconfig of a resolved closure is one store item, built by EasyBuild from locked sources."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from envmgr.backends import Backend, Built, GpuCodes, LoadedLock, LockOptions, LockResult, OwnFolder, read_input
from envmgr.backends.easybuild.answers import differing_from_recipe
from envmgr.backends.easybuild.easyconfigs import changed_since
from envmgr.backends.easybuild.folders import lock_of, locks_folder, module_file, modules_folder, tools_folder
from envmgr.backends.easybuild.gpus import compiled_for, differing_from_now, explain_gpus, not_looked_at, to_keep
from envmgr.backends.easybuild.input import EasyBuildInput
from envmgr.backends.easybuild.items import MARKED, brings_python, closure_of, items_of, module_names
from envmgr.backends.easybuild.judging import lock_facts, version_of
from envmgr.backends.easybuild.leftovers import clean_modules
from envmgr.backends.easybuild.licences import words_of
from envmgr.backends.easybuild.lock import LOCK_NAME, EasyBuildLock, LockedItem, describe, lock_text, read_lock
from envmgr.backends.easybuild.settings import EasyBuildSettings, easyconfig_folders, explain_settings, own_easyconfigs
from envmgr.catalog.gpu_codes import short_cuda
from envmgr.catalog.lock_rules import LockFacts
from envmgr.catalog.locks import stale_lock
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.settings import SiteFact
from envmgr.catalog.site import Site
from envmgr.catalog.target import Target, read_target
from envmgr.downloads import Fetched, Given
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.prefix import Install, Item, Prefix, install_of
from envmgr.system.resources import shipped
from envmgr.system.run import Runner
from envmgr.system.safe_paths import remove_below

if TYPE_CHECKING:  # a build that is no Slurm job needs none of it
    from envmgr.nodes import JobOptions

_UNSUMMED = "the lock has no sha256 of EasyBuild, which is installed privately then; `envmgr lock {entry}` adds it"
_UNSEEN = "the lock does not say which of its easyconfigs ask for GPUs; `envmgr lock {entry}` looks"
_UNFILED = "the lock does not name EasyBuild's files: a private one comes from the package index; `envmgr lock {entry}` adds them"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedEasyBuildLock(LoadedLock):
    """A resolved easyconfig: one install for each easyconfig of its closure."""

    content: EasyBuildLock

    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        """With Pythons of those layouts on which the entry's install is there, or else with which the fewest installs are missing.

        Of a finished install, what only its build needed may be gone, an old Python for one: nothing is built anew for that.
        Among equals the oldest that is there counts, and the newest that is not.
        """
        prefix, newest = Prefix(site.prefix), self.backend.layout
        pythons = sum(map(brings_python, self.content.items))

        def chain(layouts: Sequence[int]) -> tuple[Item, ...]:
            """With Pythons of `layouts`, in the lock's order."""
            each = iter(layouts)

            def find(entry: Entry, identity: object, python: bool) -> Install:
                layout, last = (next(each), newest) if python else (1, 1)
                return install_of(prefix, entry, self.backend.name, identity, target, layout=layout, newest=last)

            return items_of(self.content, target.cpu_level, find)

        def missing(items: Sequence[Item]) -> int:
            return sum(not item.install.exists() for item in items)

        chains = [chain(layouts) for layouts in product(range(1, newest + 1), repeat=pythons)]
        there = next((items for items in chains if items[-1].install.exists()), None)
        return there or min(reversed(chains), key=missing)

    def cuda(self) -> str | None:
        return lock_facts(self.content).cuda

    def cuda_compat(self) -> str:
        return short_cuda((version_of(self.content, "CUDAcompat") or "").partition("-")[0]) or ""

    def facts(self, *, checked: bool = False) -> LockFacts:  # noqa: ARG002 - it costs nothing
        return lock_facts(self.content)

    def may_build(self) -> None:
        """Not as root: EasyBuild refuses that."""
        from envmgr.backends.easybuild.failures import root_refused

        if os.geteuid() == 0:
            raise root_refused()

    def fetch(self, site: Site, runner: Runner, reporter: Reporter, *, given: Given, dry_run: bool = False) -> Fetched:
        """EasyBuild itself as well, where a build here would install it."""
        from envmgr.backends.easybuild.choose import needs_private
        from envmgr.backends.easybuild.sourcing import fetch_locked

        return fetch_locked(
            self.content,
            site,
            runner,
            reporter,
            label=str(self.entry),
            given=given,
            dry_run=dry_run,
            sources=True,
            easybuild=needs_private(self.content, site),
        )

    def fetch_tools(
        self, site: Site, runner: Runner, reporter: Reporter, *, given: Given, dry_run: bool = False
    ) -> Fetched:
        """EasyBuild itself."""
        from envmgr.backends.easybuild.sourcing import fetch_locked

        return fetch_locked(
            self.content,
            site,
            runner,
            reporter,
            label=str(self.entry),
            given=given,
            dry_run=dry_run,
            sources=False,
            easybuild=True,
        )

    def prepare(
        self,
        items: Sequence[Item],
        site: Site,
        runner: Runner,
        reporter: Reporter,
        *,
        elsewhere: JobOptions | None = None,
    ) -> None:
        """Packages of the system, EasyBuild itself, and every source: hours of building do not end in a missing file."""
        from envmgr.backends.easybuild.choose import easybuild_for_build
        from envmgr.backends.easybuild.osdeps import require_packages
        from envmgr.backends.easybuild.sourcing import collect_all

        data, locked = self.content, [self._locked(item) for item in items]
        if elsewhere is None:  # the host that builds looks for itself
            require_packages(locked, runner)
        collect_all(locked, site, runner, reporter, label=str(self.entry))
        easybuild_for_build(data, site, os.environ, runner, reporter, label=str(self.entry), nodes=elsewhere)

    def pack(self, site: Site, folder: Path) -> Site:
        from envmgr.backends.easybuild.easyconfigs import copy_easyconfigs

        copy_easyconfigs(self.content.items, site, folder / "easyconfigs")
        return site.with_settings(self.backend.name, easyconfigs=[str(folder / "easyconfigs")])

    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:
        from envmgr.backends.easybuild.build import build_easyconfig
        from envmgr.backends.easybuild.choose import easybuild_for_build
        from envmgr.backends.easybuild.layout import Order
        from envmgr.backends.easybuild.osdeps import require_packages
        from envmgr.backends.easybuild.sourcing import collect_sources
        from envmgr.modules.lmod import find_lmod

        data, locked = self.content, self._locked(item)
        require_packages([locked], runner)
        tool = easybuild_for_build(data, site, os.environ, runner, reporter, label=str(self.entry))
        everything = self.items(site, read_target(site.cpu_level))
        order = Order(
            install=item.install,
            locked=locked,
            lock=data,
            names=module_names(everything),
            closure=closure_of(everything, item.install),
            sources=collect_sources(locked, site, runner, reporter, label=str(self.entry)),
            tool=tool,
            lmod=find_lmod(site.lmod.dir, os.environ, runner=runner),
            site=site,
        )
        facts, made = build_easyconfig(order, runner, reporter, jobs=jobs)
        tools = {"easybuild-framework": data.framework, "easybuild-easyblocks": data.easyblocks}
        return Built(facts, {}, tools, (module_file(item.install),), made)

    def _locked(self, item: Item) -> LockedItem:
        """What the lock says of an item: its easyconfig's name and version are those of the install."""
        return next(each for each in self.content.items if each.key == str(item.install.entry))


class EasyBuildBackend(Backend):
    """EasyBuild, in just the version of each lock, as a process of its own."""

    name = "easybuild"
    stages = True
    reproducible = False
    layout = MARKED
    input = EasyBuildInput
    settings = EasyBuildSettings
    old_keys: ClassVar = {"easyconfigs": "easyconfigs"}

    def faults(self, recipe: Recipe, site: Site) -> list[str]:
        if wrong := super().faults(recipe, site):
            return wrong
        wanted = EasyBuildInput.model_validate(recipe.input)
        return [f"input.unhashed.{name}: is a path, not a file name" for name in wanted.unhashed if "/" in name]

    def lock(
        self,
        entry: Entry,
        recipe: Recipe,
        site: Site,
        runner: Runner,
        reporter: Reporter,
        options: LockOptions,  # noqa: ARG002 - EasyBuild resolves its easyconfigs itself
    ) -> LockResult:
        from envmgr.backends.easybuild.locking import make_lock

        made, notes = make_lock(entry, read_input(entry, recipe, EasyBuildInput), site, runner, reporter, os.environ)
        for item in made.items:
            changed_since(item, site)  # which nobody can review
        return LockResult({LOCK_NAME: lock_text(made)}, describe(made), notes, lock_facts(made))

    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedEasyBuildLock:
        found, sha256 = read_lock(folder)
        hint = f"run `envmgr lock {entry}` and commit the result"
        wanted = read_input(entry, recipe, EasyBuildInput).digest()
        if found.recipe != wanted:
            raise stale_lock(entry, folder / LOCK_NAME, wanted, found.recipe)
        if differing := differing_from_recipe(found, read_input(entry, recipe, EasyBuildInput)):
            raise EnvmgrError(
                "lock-stale", f"{folder / LOCK_NAME} does not match recipe.yaml", context=differing, hint=hint
            )
        if changed := [text for item in found.items if (text := changed_since(item, site))]:
            raise EnvmgrError(
                "lock-stale", f"{folder / LOCK_NAME} is older than its easyconfigs", context=changed, hint=hint
            )
        if differing := differing_from_now(found, read_input(entry, recipe, EasyBuildInput), site):
            raise EnvmgrError(
                "lock-stale",
                f"{folder / LOCK_NAME} is for other GPUs than now: {differing[0]}",
                context=differing[1:],
                hint=f"{hint}; or, where its GPUs are meant, say {keep} under `input` of the recipe"
                if (keep := to_keep(found))
                else hint,
            )
        last = found.items[-1]
        return LoadedEasyBuildLock(
            backend=self,
            entry=entry,
            sha256=sha256,
            packages=describe(found),
            licences=words_of(found),
            extensions=last.extensions,
            python=True if last.name == "Python" else None,  # an installer may bring one, too
            python_version=last.version.partition("-")[0] if last.name == "Python" else None,
            notes=tuple(_notes(entry, found)),
            content=found,
        )

    def read_packages(self, folder: Path) -> Mapping[str, str]:
        try:
            return describe(read_lock(folder)[0])
        except EnvmgrError:
            return {}

    def explain(self, site: Site) -> Iterable[SiteFact]:
        yield from explain_settings(site)
        yield from explain_gpus(site)

    def gpu_codes(self, site: Site) -> Sequence[GpuCodes]:
        return compiled_for(site)

    def reads(self, site: Site) -> Sequence[Path]:
        return [folder for folder in easyconfig_folders(site) if folder.exists()]

    def beside(self, recipe: Recipe, site: Site) -> Mapping[Path, Path]:
        """The shipped easyconfig that the recipe names, with what lies beside it -> the site's own folder, where it has one."""
        name, own, shipped_ones = recipe.input.get("easyconfig"), own_easyconfigs(site), shipped("easyconfigs")
        if not own or not isinstance(name, str):
            return {}
        place = next(iter(shipped_ones.glob(f"*/*/{name}")), None)
        if place is None:
            return {}
        files = [place, *place.parent.glob(f"{name.removesuffix('.eb')}*.patch")]
        return {file: own[0] / file.relative_to(shipped_ones) for file in files}

    def folders(self, prefix: Prefix) -> Sequence[OwnFolder]:
        modules = modules_folder(prefix)
        return (
            OwnFolder(modules.parent),
            OwnFolder(modules, public=True),
            OwnFolder(tools_folder(prefix)),
            OwnFolder(locks_folder(prefix)),
        )

    def clear_dead_build(self, install: Install) -> None:
        remove_below(install.prefix.root, lock_of(install))

    def may_replace(self, install: Install, runner: Runner) -> None:
        from envmgr.backends.easybuild.again import require_mounts

        require_mounts(install, runner)

    def clean(self, prefix: Prefix, reporter: Reporter) -> None:
        clean_modules(prefix, reporter)


def _notes(entry: Entry, lock: EasyBuildLock) -> Iterator[str]:
    """What a lock of an earlier envmgr lacks."""
    if not lock.easybuild_sha256:
        yield _UNSUMMED.format(entry=entry)
    elif not lock.easybuild_files:
        yield _UNFILED.format(entry=entry)
    if not_looked_at(lock):
        yield _UNSEEN.format(entry=entry)
