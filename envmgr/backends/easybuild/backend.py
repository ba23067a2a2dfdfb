"""The EasyBuild backend: every easyconfig of a resolved closure is one store item, built by EasyBuild from locked sources."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from envmgr.backends import LoadedLock, LockOptions, LockResult, Realised
from envmgr.backends.easybuild.easyconfigs import changed_since
from envmgr.backends.easybuild.input import EasyBuildInput
from envmgr.backends.easybuild.items import closure_of, items_of, module_names
from envmgr.backends.easybuild.licences import words_of
from envmgr.backends.easybuild.lock import LOCK_NAME, EasyBuildLock, LockedItem, describe, lock_text, read_lock
from envmgr.catalog.cuda import driver_faults
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import Site
from envmgr.catalog.target import Target, read_target
from envmgr.downloads import Fetched, Given
from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Reporter
from envmgr.store.prefix import Item
from envmgr.system.run import Runner
from envmgr.system.yamlfile import reason_of


def faults(recipe: Recipe, site: Site) -> list[str]:
    try:
        wanted = EasyBuildInput.model_validate(recipe.input)
    except ValidationError as error:
        return _faults(error)
    del site
    return [f"input.unhashed.{name}: is a path, not a file name" for name in wanted.unhashed if "/" in name]


def lock(
    entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
) -> LockResult:
    from envmgr.backends.easybuild.locking import make_lock

    if options.solver is not None:
        raise InputError("unknown-solver", "EasyBuild resolves its easyconfigs itself: --solver is for conda entries")
    made, notes = make_lock(entry, _input(entry, recipe), site, runner, reporter, os.environ)
    return LockResult({LOCK_NAME: lock_text(made)}, describe(made), notes)


def load_lock(entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedLock:
    found, sha256 = read_lock(folder)
    hint = f"run `envmgr lock {entry}` and commit the result"
    wanted = _input(entry, recipe).digest()
    if found.recipe != wanted:
        raise EnvmgrError(
            "lock-stale", f"{folder / LOCK_NAME} does not match recipe.yaml",
            context=f"recipe digest {wanted[:8]}…, lock records {found.recipe[:8]}…", hint=hint,
        )  # fmt: skip
    if differing := _differing(found, _input(entry, recipe)):
        raise EnvmgrError(
            "lock-stale", f"{folder / LOCK_NAME} does not match recipe.yaml", context=differing, hint=hint
        )
    if changed := [text for item in found.items if (text := changed_since(item, site))]:
        raise EnvmgrError(
            "lock-stale", f"{folder / LOCK_NAME} is older than its easyconfigs", context=changed, hint=hint
        )
    return LoadedLock(
        entry=entry,
        sha256=sha256,
        licences=words_of(found),
        identity=None,
        packages=describe(found),
        extensions=found.items[-1].extensions,
        download=None,
        installed=None,
        data=found,
    )


def fetch(
    lock: LoadedLock, site: Site, runner: Runner, reporter: Reporter, *, given: Given, dry_run: bool = False
) -> Fetched:
    from envmgr.backends.easybuild.sourcing import source_files
    from envmgr.downloads.sources import fetch_sources

    files = [file for item in _data(lock).items for file in source_files(item)]
    return fetch_sources(files, site, runner, reporter, label=str(lock.entry), given=given, dry_run=dry_run)


def items(lock: LoadedLock, site: Site, target: Target) -> tuple[Item, ...]:
    return items_of(_data(lock), site, target)


def lock_faults(entry: Entry, recipe: Recipe, folder: Path) -> list[str]:  # noqa: ARG001 - the contract's signature
    found, _ = read_lock(folder)
    cuda = next((item.version for item in found.items if item.name == "CUDA"), None)
    return [] if cuda is None else driver_faults(".".join(cuda.split(".")[:2]), recipe.requires.nvidia_driver)


def read_packages(folder: Path) -> Mapping[str, str]:
    try:
        return describe(read_lock(folder)[0])
    except EnvmgrError:
        return {}


def may_build() -> None:
    """Not as root: EasyBuild refuses that."""
    from envmgr.backends.easybuild.failures import root_refused

    if os.geteuid() == 0:
        raise root_refused()


def prepare(
    lock: LoadedLock, items: Sequence[Item], site: Site, runner: Runner, reporter: Reporter, *, elsewhere: bool = False
) -> None:
    """Packages of the system, EasyBuild itself, and every source: hours of building do not end in a missing file."""
    from envmgr.backends.easybuild.osdeps import require_packages
    from envmgr.backends.easybuild.sourcing import collect_all
    from envmgr.backends.easybuild.tool import ensure_easybuild, site_home

    data, locked = _data(lock), [item.data for item in items]
    if not elsewhere:  # the host that builds looks for itself
        require_packages(locked, runner)
    collect_all(locked, site, runner, reporter, label=str(lock.entry))
    tool = ensure_easybuild(data.framework, site_home(data.framework, site), site, os.environ, runner, reporter)
    tool.require(data.framework, data.easyblocks)


def pack(lock: LoadedLock, site: Site, folder: Path) -> Site:
    from envmgr.backends.easybuild.easyconfigs import copy_easyconfigs

    copy_easyconfigs(_data(lock).items, site, folder / "easyconfigs")
    return site.model_copy(update={"easyconfigs": (folder / "easyconfigs",)})


def realise(lock: LoadedLock, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Realised:
    from envmgr.backends.easybuild.build import build_easyconfig
    from envmgr.backends.easybuild.layout import Order
    from envmgr.backends.easybuild.osdeps import require_packages
    from envmgr.backends.easybuild.sourcing import collect_sources
    from envmgr.backends.easybuild.tool import ensure_easybuild, site_home
    from envmgr.modules.lmod import find_lmod

    data, locked = _data(lock), item.data
    assert isinstance(locked, LockedItem)
    require_packages([locked], runner)
    tool = ensure_easybuild(data.framework, site_home(data.framework, site), site, os.environ, runner, reporter)
    tool.require(data.framework, data.easyblocks)
    everything = items_of(data, site, read_target(site.cpu_level))
    order = Order(
        item=item,
        lock=data,
        names=module_names(everything),
        closure=closure_of(everything, item.install),
        sources=collect_sources(locked, site, runner, reporter, label=str(lock.entry)),
        tool=tool,
        lmod=find_lmod(site.lmod.dir, os.environ, runner=runner),
        site=site,
    )
    facts = build_easyconfig(order, runner, reporter, jobs=jobs)
    tools = {"easybuild-framework": data.framework, "easybuild-easyblocks": data.easyblocks}
    return Realised(facts, {}, tools)


def _differing(lock: EasyBuildLock, wanted: EasyBuildInput) -> list[str]:
    """Where a lock that records the recipe's digest says something else than the recipe all the same: it was edited."""
    rows = (
        ("easyconfig", wanted.easyconfig, lock.items[-1].easyconfig),
        ("easybuild", wanted.easybuild, lock.framework),
        ("rpath", wanted.rpath, lock.rpath),
        ("filter_deps", ", ".join(wanted.filter_deps), ", ".join(lock.filter_deps)),
        ("accept_eula", ", ".join(wanted.accept_eula), ", ".join(lock.accept_eula)),
    )
    return [
        f"{name}: the recipe says {said or 'nothing'}, the lock {locked or 'nothing'}"
        for name, said, locked in rows
        if said != locked
    ]


def _data(lock: LoadedLock) -> EasyBuildLock:
    assert isinstance(lock.data, EasyBuildLock)
    return lock.data


def _input(entry: Entry, recipe: Recipe) -> EasyBuildInput:
    try:
        return EasyBuildInput.model_validate(recipe.input)
    except ValidationError as error:
        raise InputError(
            "recipe-invalid", f"the EasyBuild input of {entry} has faults", context=_faults(error)
        ) from None


def _faults(error: ValidationError) -> list[str]:
    return [
        f"input.{'.'.join(str(part) for part in e['loc'])}: {reason_of(dict(e))}"
        for e in error.errors(include_url=False)
    ]
