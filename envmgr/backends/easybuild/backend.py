"""The EasyBuild backend: every easyconfig of a closure is one store item, built by EasyBuild from locked sources."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envmgr.backends import Backend, Built, LoadedLock, LockOptions, LockResult, OwnFolder, read_input
from envmgr.backends.easybuild import Workbench
from envmgr.backends.easybuild.build_place import clean_modules
from envmgr.backends.easybuild.easyconfigs import changed_since, gone_files, installed_easyconfigs, shipped_files
from envmgr.backends.easybuild.gpus import explain_gpus
from envmgr.backends.easybuild.items import chain_of, lock_of, locks_folder, module_file, modules_folder, tools_folder
from envmgr.backends.easybuild.lock import (
    LOCK_NAME,
    EasyBuildLock,
    LockedItem,
    locked_versions,
    read_easybuild_lock,
    render_lock,
)
from envmgr.backends.easybuild.lock_checks import licence_words, lock_facts, require_fresh
from envmgr.backends.easybuild.parts import item_parts
from envmgr.backends.easybuild.settings import (
    EasyBuildInput,
    EasyBuildSettings,
    easyconfig_folders,
    explain_easyconfigs,
)
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.settings import SiteFact
from envmgr.catalog.site import Site, Target, read_target
from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Reporter
from envmgr.store.prefix import Install, Item, Prefix
from envmgr.system.run import Runner
from envmgr.system.safe_paths import remove_below

if TYPE_CHECKING:
    from envmgr.downloads.fetch import DownloadSet
    from envmgr.nodes.jobs import JobOptions

_UNFILED = (
    "the lock does not name EasyBuild's files: a private one comes from the package index; "
    "`envmgr lock {entry}` adds them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedEasyBuildLock(LoadedLock):
    """A resolved easyconfig: one install for each easyconfig of its closure."""

    content: EasyBuildLock

    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        def find(entry: Entry, identity: object) -> Install:
            return self.backend.install(entry, identity, site, target)

        return chain_of(self.content, target.cpu_level, find)

    def may_build(self) -> None:
        """Raise EnvmgrError `root-refused` for root: EasyBuild refuses that."""
        from envmgr.backends.easybuild.failures import root_refused

        if os.geteuid() == 0:
            raise root_refused()

    def downloads(self, site: Site) -> Sequence[DownloadSet]:
        from envmgr.backends.easybuild.sources import item_sources

        return (item_sources(self.content.items, site, str(self.entry)),)

    def tools(self, site: Site) -> Sequence[DownloadSet]:
        from envmgr.backends.easybuild.sources import easybuild_files

        return (easybuild_files(self.content, site, str(self.entry)),) if self.content.easybuild_files else ()

    def needs_tools(self, site: Site) -> bool:
        from envmgr.backends.easybuild.choose_easybuild import needs_private

        return needs_private(self.content, site)

    def prepare(
        self,
        items: Sequence[Item],
        site: Site,
        runner: Runner,
        reporter: Reporter,
        *,
        elsewhere: JobOptions | None = None,
    ) -> None:
        """Check packages of the system, and get EasyBuild and every source: no long build ends in a missing file."""
        from envmgr.backends.easybuild.choose_easybuild import easybuild_for_build
        from envmgr.backends.easybuild.sources import collect_all, require_packages

        bench, locked = _workbench(self.entry, site, runner, reporter), [self._locked(item) for item in items]
        if elsewhere is None:  # the host that builds looks for itself
            require_packages(locked, runner)
        collect_all(locked, bench)
        easybuild_for_build(self.content, bench, nodes=elsewhere)

    def pack(self, site: Site, folder: Path) -> Site:
        from envmgr.backends.easybuild.easyconfigs import copy_easyconfigs

        copy_easyconfigs(self.content.items, site, folder / "easyconfigs")
        return site.with_settings(self.backend.name, easyconfigs=[str(folder / "easyconfigs")])

    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:
        from envmgr.backends.easybuild.build import Order, build_easyconfig
        from envmgr.backends.easybuild.choose_easybuild import easybuild_for_build
        from envmgr.backends.easybuild.sources import collect_sources, require_packages
        from envmgr.modules.lmod import find_lmod

        bench, locked = _workbench(self.entry, site, runner, reporter), self._locked(item)
        require_packages([locked], runner)
        tool = easybuild_for_build(self.content, bench)
        order = Order(
            install=item.install,
            locked=locked,
            lock=self.content,
            items=self.items(site, read_target(site.cpu_level)),
            sources=collect_sources(locked, bench),
            tool=tool,
            lmod=find_lmod(site.lmod.dir, bench.environ, runner=runner),
            site=site,
        )
        facts, made = build_easyconfig(order, runner, reporter, jobs=jobs)
        tools = {"easybuild-framework": self.content.framework, "easybuild-easyblocks": self.content.easyblocks}
        parts = tuple(item_parts(locked, self.content.items))
        return Built(facts, {}, tools, tuple(self.backend.extra_files(item.install)), made, parts)

    def _locked(self, item: Item) -> LockedItem:
        """Return what the lock says of an item: its easyconfig's name and version are those of the install."""
        return next(each for each in self.content.items if each.key == str(item.install.entry))


class EasyBuildBackend(Backend):
    """EasyBuild, in just the version of each lock, as a process of its own."""

    name = "easybuild"
    input = EasyBuildInput
    settings = EasyBuildSettings

    def faults(self, recipe: Recipe, site: Site) -> list[str]:
        if wrong := super().faults(recipe, site):
            return wrong
        wanted = EasyBuildInput.model_validate(recipe.input)
        return [f"input.unhashed.{name}: is a path, not a file name" for name in wanted.unhashed if "/" in name]

    def missing(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> Iterable[EnvmgrError]:  # noqa: ARG002 - its files are beside its easyconfigs
        wanted = EasyBuildInput.model_validate(recipe.input)
        own = installed_easyconfigs(wanted.easybuild)
        roots = () if own is None else (*easyconfig_folders(site), own)
        if roots and not any(True for root in roots for _ in root.glob(f"[a-z0-9]/*/{wanted.easyconfig}")):
            from envmgr.backends.easybuild.resolve import unknown_easyconfig

            yield unknown_easyconfig(wanted.easyconfig, roots)
        with suppress(EnvmgrError):  # what is wrong with the lock is reported where that is checked
            locked = read_easybuild_lock(folder)[0]
            for text in gone_files(locked, site):
                yield InputError("patch-missing", text, hint="restore the file from git")

    def lock(
        self, entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> LockResult:
        del options  # EasyBuild resolves its easyconfigs itself
        from envmgr.backends.easybuild.make_lock import make_lock

        wanted = read_input(entry, recipe, EasyBuildInput)
        made, notes = make_lock(entry, wanted, _workbench(entry, site, runner, reporter))
        for item in made.items:
            changed_since(item, site)  # raises for an easyconfig that nobody can review
        return LockResult({LOCK_NAME: render_lock(made)}, locked_versions(made), notes, lock_facts(made))

    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedEasyBuildLock:
        found, sha256 = read_easybuild_lock(folder)
        require_fresh(found, read_input(entry, recipe, EasyBuildInput), entry, folder, site)
        last = found.items[-1]
        return LoadedEasyBuildLock(
            backend=self,
            entry=entry,
            sha256=sha256,
            packages=locked_versions(found),
            licences=licence_words(found),
            extensions=last.extensions,
            python=True if last.name == "Python" else None,  # an installer may bring one, too
            python_version=last.version.partition("-")[0] if last.name == "Python" else None,
            notes=() if found.easybuild_files else (_UNFILED.format(entry=entry),),
            facts=lock_facts(found),
            content=found,
        )

    def explain(self, site: Site) -> Iterable[SiteFact]:
        if site.build_user is None and os.geteuid() == 0:
            from envmgr.backends.easybuild.failures import root_refused

            refused = root_refused()
            yield SiteFact("build_user", "warning", refused.message, refused.hint)
        yield from explain_easyconfigs(site)
        yield from explain_gpus(site)

    def reads(self, site: Site) -> Sequence[Path]:
        return [folder for folder in easyconfig_folders(site) if folder.exists()]

    def beside(self, recipe: Recipe, site: Site) -> Mapping[Path, Path]:
        return shipped_files(recipe.input.get("easyconfig"), site)

    def folders(self, prefix: Prefix) -> Sequence[OwnFolder]:
        modules = modules_folder(prefix)
        own, public = OwnFolder(modules.parent), OwnFolder(modules, public=True)
        return (own, public, OwnFolder(tools_folder(prefix)), OwnFolder(locks_folder(prefix)))

    def clear_dead_build(self, install: Install) -> None:
        remove_below(install.prefix.root, lock_of(install))

    def extra_files(self, install: Install) -> Sequence[Path]:
        return (module_file(install),)

    def clean(self, prefix: Prefix, reporter: Reporter) -> None:
        clean_modules(prefix, reporter)


def _workbench(entry: Entry, site: Site, runner: Runner, reporter: Reporter) -> Workbench:
    return Workbench(site, os.environ, runner, reporter, str(entry))
