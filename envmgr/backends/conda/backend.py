"""The conda backend: locked with rattler or conda-lock, installed by rattler from checked packages."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envmgr.backends import Backend, Built, LoadedLock, LockOptions, LockResult, OwnFolder, read_input
from envmgr.backends.conda.lock import PYTHON, UNPACKED, CondaLock, LockedPackage
from envmgr.backends.conda.lock_checks import facts_of, notes_of
from envmgr.backends.conda.lockfile import LOCK_NAME, SIDECAR_NAME, lock_texts, read_lock, require_own_channels
from envmgr.backends.conda.models import (
    SOLVERS,
    CondaInput,
    CondaSettings,
    channels_of,
    package_cache,
    places_of,
    program_of,
)
from envmgr.catalog.entries import open_catalog
from envmgr.catalog.locks import lock_text, missing_lock, require_answer, stale_lock
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.settings import SiteFact, mirror_faults
from envmgr.catalog.site import Site, Target
from envmgr.report import Reporter
from envmgr.store.prefix import Item, Prefix
from envmgr.system.run import Runner
from envmgr.wheels.lockfile import WHEEL_UNPACKED, WHEELS_LOCK
from envmgr.wheels.settings import indexes_of

if TYPE_CHECKING:
    from envmgr.downloads.fetch import DownloadSet
    from envmgr.store.parts import Part

ANACONDA_TERMS = "anaconda-terms"
_ANACONDAS = re.compile(
    r"defaults$|https?://(repo\.anaconda\.com|repo\.continuum\.io)/"
    r"|https?://conda\.anaconda\.org/(anaconda|main|r|msys2)(/|$)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCondaLock(LoadedLock):
    """The packages of one environment, which is one install.

    `folder` is the recipe's.
    """

    content: CondaLock
    wanted: CondaInput
    folder: Path

    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        return (Item(self.backend.install(self.entry, self.content.identity(), site, target)),)

    def solve_again(self, site: Site, runner: Runner, reporter: Reporter, options: LockOptions) -> Mapping[str, str]:
        return _solve(self.wanted, site, runner, reporter, options, keep=self.content)[0].describe()

    def texts(self, recipe: Recipe) -> Mapping[str, str]:  # noqa: ARG002 - its own files say all
        names = (LOCK_NAME, SIDECAR_NAME, *([WHEELS_LOCK] if self.content.added else []))
        return {name: lock_text(self.folder / name) for name in names if (self.folder / name).is_file()}

    def downloads(self, site: Site) -> Sequence[DownloadSet]:
        from envmgr.backends.conda.install import archives

        label, added = str(self.entry), self.content.added
        if added is None:
            return (archives(self.content, label, site),)
        from envmgr.wheels.fetch import wheel_files  # slow to load, and most locks have no wheels

        return (archives(self.content, label, site), wheel_files(added.rows, self.wanted.indexes, label, site))

    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:
        from importlib.metadata import version

        from envmgr.backends.conda.install import install_packages

        facts, expected = install_packages(
            self.content, self.wanted, self.downloads(site), item.install, site, runner, reporter, jobs=jobs
        )
        tools = ("py-rattler",) if self.content.added is None else ("py-rattler", "installer")
        return Built(facts, expected, {tool: version(tool) for tool in tools})


class CondaBackend(Backend):
    """The backend for conda environments. Packages are fetched during the install, or before it for hosts without
    network.
    """

    name = "conda"
    input = CondaInput
    settings = CondaSettings
    solvers = SOLVERS
    upgrades = True

    def faults(self, recipe: Recipe, site: Site) -> list[str]:
        if wrong := super().faults(recipe, site):
            return wrong
        known, wanted = channels_of(site), CondaInput.model_validate(recipe.input)
        unknown = [c for c in wanted.channels if "://" not in c and c not in known]
        indexes = [name for name in wanted.indexes if wanted.pip and name not in indexes_of(site)]
        return [
            *(f"input.channels: the site has no channel `{name}`" for name in unknown),
            *(f"input.indexes: the site has no index `{name}`" for name in indexes),
        ]

    def remarks(self, recipe: Recipe, site: Site) -> list[str]:
        known = channels_of(site)
        urls = [c for c in CondaInput.model_validate(recipe.input).channels if c not in known]
        return [f"input.channels: `{url}` is a URL: the site has no channel of that name" for url in urls]

    def lock(
        self, entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> LockResult:
        wanted = read_input(entry, recipe, CondaInput)
        keep = read_lock(open_catalog(site).find(entry).folder)[0] if options.upgrade else None
        solved, more = _solve(wanted, site, runner, reporter, options, keep)
        notes = [
            f"{c.name}: solved from a snapshot{f' ({c.note})' if c.note else ''}, not from the channel itself"
            for c in solved.channels
            if c.snapshot is not None
        ]
        notes += [*more, *notes_of(solved, wanted)]
        facts = facts_of(solved, wanted)
        return LockResult(lock_texts(solved), solved.describe(), tuple(notes), facts, optional=(WHEELS_LOCK,))

    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedCondaLock:
        found, sha256 = read_lock(folder)
        wanted = read_input(entry, recipe, CondaInput)
        require_answer(entry, folder / LOCK_NAME, found.describe(), wanted.digest(), found.recipe_digest)
        require_own_channels(found.packages, places_of(wanted.channels, site), folder / LOCK_NAME)
        if wanted.pip:
            _require_wheels(found, wanted, entry, folder / WHEELS_LOCK)
        download, installed = _sizes(found)
        told = f"{folder / LOCK_NAME} was changed after it was written: {SIDECAR_NAME} belongs to another text"
        return LoadedCondaLock(
            backend=self,
            entry=entry,
            sha256=sha256,
            packages=found.describe(),
            licences=_licences(recipe, site),
            extensions=(
                *(f"{p.name}/{p.version}" for p in found.packages if _is_extension(p, recipe)),
                # NVIDIA's wheels are libraries, which users do not look for.
                *(
                    f"{r.name}/{r.version}"
                    for r in (found.added.rows if found.added else ())
                    if not r.name.startswith("nvidia-")
                ),
            ),
            python=PYTHON in found.versions,
            python_version=found.versions.get(PYTHON),
            download=download,
            installed=installed,
            notes=notes_of(found, wanted),
            facts=facts_of(found, wanted, told if found.edited else ""),
            content=found,
            wanted=wanted,
            folder=folder,
        )

    def parts(self, provenance: Mapping[str, Any], texts: Mapping[str, str]) -> Iterable[Part]:  # noqa: ARG002 - the lock says all
        from envmgr.backends.conda.parts import parts_of

        return parts_of(texts)

    def channels(self, recipe: Recipe, site: Site) -> Collection[str]:
        said = recipe.input
        indexes = {*indexes_of(site), *map(str, said.get("indexes", ()))} if said.get("pip") else set()
        return {*channels_of(site), *map(str, said.get("channels", ())), *indexes}

    def explain(self, site: Site) -> Iterable[SiteFact]:
        for name, channel in sorted(channels_of(site).items()):
            yield from mirror_faults(f"backends.conda.channels.{name}", [channel.url, *channel.mirrors])
        program = program_of(site)
        if program is not None and not (program.is_file() and os.access(program, os.X_OK)):
            text = f"{program} is no program"
            yield SiteFact("backends.conda.program", "error", text, "name conda, mamba or micromamba")

    def folders(self, prefix: Prefix) -> Sequence[OwnFolder]:
        return (OwnFolder(package_cache(prefix)),)


def _solve(
    wanted: CondaInput,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    options: LockOptions,
    keep: CondaLock | None = None,
) -> tuple[CondaLock, list[str]]:
    """Return the lock, and notes on its wheels. Of what `keep` has, no other version is taken; with `options.upgrade`, it
    is only preferred.
    """
    from envmgr.backends.conda.solve import solve

    places = options.places or {}
    solver = options.solver or SOLVERS[0]
    solved = solve(wanted, site, runner, reporter, solver=solver, places=places, keep=keep, upgrade=options.upgrade)
    if not wanted.pip:
        return solved, []
    from envmgr.backends.conda.pip import add_wheels

    return add_wheels(solved, wanted, site, runner, reporter, places, keep=keep, upgrade=options.upgrade)


def _sizes(lock: CondaLock) -> tuple[int | None, int | None]:
    """Return the bytes of a lock's downloads and of its install; None if the lock lacks the size of a file."""
    wheels = 0 if lock.added is None else lock.added.size
    sizes = [each.size for each in lock.packages if each.size]
    if wheels is None or len(sizes) < len(lock.packages):
        return None, None
    return sum(sizes) + wheels, sum(sizes) * UNPACKED + wheels * WHEEL_UNPACKED


def _require_wheels(lock: CondaLock, wanted: CondaInput, entry: Entry, path: Path) -> None:
    """Raise EnvmgrError `lock-missing`, `lock-stale` if the lock has not the wheels that the recipe asks for, and
    InputError `lock-foreign` for one from a place that it does not name.
    """
    if lock.added is None and not path.exists():
        raise missing_lock(path)
    python = lock.versions.get(PYTHON)
    if lock.added is None or lock.added.python != python:
        raise stale_lock(entry, path, lock.describe(), [f"its packages have Python {python}"])
    from envmgr.wheels.lock_checks import require_asked_urls  # slow to load, and most locks have no wheels

    require_asked_urls(lock.added, wanted.pip, path)


def _licences(recipe: Recipe, site: Site) -> tuple[str, ...]:
    """Return the licences for Anaconda's own channels, whose terms of service apply to mirrors as well. Source:
    anaconda.com/legal.
    """
    named = [str(c) for c in recipe.input.get("channels", ())]
    known = channels_of(site)
    urls = [known[c].url if c in known else c for c in named]
    return (ANACONDA_TERMS,) if any(_ANACONDAS.match(text) for text in (*named, *urls)) else ()


def _is_extension(package: LockedPackage, recipe: Recipe) -> bool:
    """Return whether a user may look for the package by name: one that the recipe names, or a Python package.

    Libraries that a recipe names are pins (`libblas * *_mkl`); users do not look for them, nor for the libraries below.
    """
    asked = {str(spec).split()[0] for spec in recipe.input.get("specs", ())}
    needs = {d.split()[0] for d in package.depends}
    named = package.name in asked and not package.name.startswith(("_", "lib"))
    return named or bool({"python", "python_abi"} & needs)
