"""The contract of backends: a backend turns a recipe into a lock, and a lock into installs.

Each backend is one folder or file of this package. `Backend` is what a backend knows about recipes; `LoadedLock` is a
lock as an object of its backend. Every backend has six names: `Backend.input`, `lock` and `load_lock`; `LoadedLock.items`,
`downloads` and `build`. What only some need has a default in `_only_if.py`. tests/examples/backend is a complete one.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from envmgr.backends import _only_if as only_if
from envmgr.backends._only_if import LockOptions as LockOptions
from envmgr.backends._only_if import OwnFolder as OwnFolder
from envmgr.errors import EnvmgrError, InputError

if TYPE_CHECKING:  # a backend's worker also lies in this package, and starts without these imports
    from pydantic import BaseModel, ValidationError

    from envmgr.catalog.lock_checks import LockFacts
    from envmgr.catalog.names import Entry
    from envmgr.catalog.recipe import Recipe
    from envmgr.catalog.site import Site, Target
    from envmgr.downloads import Fetched, Given
    from envmgr.downloads.fetch import DownloadSet
    from envmgr.report import Reporter
    from envmgr.store.manifest import InstallFacts
    from envmgr.store.parts import Part
    from envmgr.store.prefix import Install, Item
    from envmgr.system.run import Runner

Model = TypeVar("Model", bound="BaseModel")


def _no_facts() -> LockFacts:
    from envmgr.catalog.lock_checks import LockFacts

    return LockFacts()


@dataclass(frozen=True, slots=True)
class LockResult:
    """The result of locking a recipe.

    `files` maps file name -> text for the recipe's folder, `packages` maps name -> `version build`. `facts`, together
    with those of the entries `below`, are judged before any file is written. With `problems`, which a person has to
    decide, none is. `optional` are patterns of files that not every lock has: those of an earlier one are removed.
    """

    files: Mapping[str, str]
    packages: Mapping[str, str]
    notes: tuple[str, ...] = ()
    facts: LockFacts = field(default_factory=_no_facts)
    below: tuple[LoadedEntry, ...] = ()
    problems: tuple[EnvmgrError, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Built:
    """A finished install: its facts for the module, and the path -> sha256 that its sources promise.

    `tools` are the versions of the tools that made it. `made` lists what was built on the way, for the record, each
    with the `path` at which it was built. `extra` are files that belong to the install and lie elsewhere below the
    prefix. Its manifest holds their sha256, and they are removed with the install. `parts` are what it is made of, for
    the record; they may be empty where each manifest has the texts of the lock.
    """

    facts: InstallFacts
    expected: Mapping[str, str]
    tools: Mapping[str, str]
    extra: tuple[Path, ...] = ()
    made: tuple[Mapping[str, str], ...] = ()
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLock(only_if.SolvedLock, only_if.BuildTool, only_if.FilesBeside, ABC):
    """A lock that answers its recipe: its installs, its files as data, and how one install is made.

    Each backend has a subclass that holds what it read; objects of it change nothing. `sha256` is the digest of the
    lock's text. `packages` maps name -> `version build`. `licences` are the words that the site must list in
    `policies.licences` before any part is fetched or built. `extensions` are `name/version` for the module. `python`
    says whether the entry's own install will have a Python. `python_version` is the version of a Python that other
    entries can be built on (`3.11.7`). `download` and `installed` are bytes. All four are None where the lock does not
    say. `notes` are for the user who checks or builds the lock. `facts` are judged with the recipe. `below` are other
    entries of the catalog whose installs this one needs. `outside` is the tree of software that somebody else made,
    where the install only leads to it: that is not ours, and can change; empty otherwise.
    """

    backend: Backend
    entry: Entry
    sha256: str
    packages: Mapping[str, str]
    licences: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    python: bool | None = None
    python_version: str | None = None
    download: int | None = None
    installed: int | None = None
    notes: tuple[str, ...] = ()
    facts: LockFacts = field(default_factory=_no_facts)
    below: tuple[LoadedEntry, ...] = ()
    outside: str = ""

    @abstractmethod
    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        """Return the installs of the lock in build order; the entry's own is the last. See `Backend.install`.

        Installs of entries `below` are not included; they appear only among what these items need.
        """

    @abstractmethod
    def downloads(self, site: Site) -> Sequence[DownloadSet]:
        """Return every file that the lock names, with its places and what to say if it cannot be had. No effects."""

    @abstractmethod
    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:
        """Put the install at `item.install.path`, read-only, without its manifest; on failure leave nothing behind.

        Everything that the item `needs` is present; files of the lock come by `fetch`. The caller holds the install's
        lock. `jobs` is the number of cores to use.
        """

    def fetch(
        self,
        site: Site,
        runner: Runner,
        reporter: Reporter,
        *,
        given: Given | None = None,
        dry_run: bool = False,
        tools: bool = False,
    ) -> Fetched:
        """Bring every file of `downloads` into the prefix's cache and check it; install nothing.

        `given` are files that the administrator named, including files of other entries. `tools` also brings the files
        of `tools`, which otherwise come only if this machine needs them, or all of them are given. All files that are
        missing and cannot be fetched are reported as one error. A dry run reports what is missing and changes nothing.
        """
        from envmgr.downloads.bring import Fetching
        from envmgr.downloads.fetch import fetch_sets

        sets, own, given = [*self.downloads(site)], self.tools(site), given or {}
        # To look whether a tool is here may take longer than to copy its files.
        carried = all(file.sha256 in given for each in own for file in each.files)
        if own and (tools or carried or self.needs_tools(site)):
            sets += own
        return fetch_sets(sets, Fetching(site.policies, runner, reporter, str(self.entry), dry_run), given)


@dataclass(frozen=True, slots=True)
class LoadedEntry:
    """An entry with everything that builds it: its recipe, the recipe's folder, and its lock."""

    recipe: Recipe
    folder: Path
    lock: LoadedLock


class Backend(only_if.SiteSettings, only_if.Solver, only_if.NamedThings, only_if.ManyParts, only_if.FilesOutside, ABC):
    """The interface of a backend. A backend has no state: it acts only on the paths given, through the runner given.

    `name` is the module's own name, which recipes use. `input` is the model of a recipe's `input`. `layout` is part of
    every digest; it is increased when the backend makes a different install from the same lock.
    """

    name: ClassVar[str]
    input: ClassVar[type[BaseModel]]
    layout: ClassVar[int] = 1

    @abstractmethod
    def lock(
        self, entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> LockResult:
        """Resolve the recipe. This writes nothing into the catalog; the same answers give the same text."""

    @abstractmethod
    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedLock:
        """Read the lock next to the recipe. Raises `lock-missing`, `lock-invalid`, or StaleLock for one that was made
        from another recipe.
        """

    def faults(self, recipe: Recipe, site: Site) -> list[str]:  # noqa: ARG002 - most inputs stand for themselves
        """Return the faults of the recipe's `input`, each as `field: reason`; no network, no effects."""
        from pydantic import ValidationError

        try:
            self.input.model_validate(recipe.input)
        except ValidationError as error:
            return _input_faults(error)
        return []

    def install(self, entry: Entry, identity: object, site: Site, target: Target) -> Install:
        """Return the place of `entry`'s install, whether or not it exists. `identity` (JSON) decides its bytes."""
        from envmgr.store.prefix import Install, Prefix, install_digest

        digest = install_digest(entry, self.name, identity, target, site.prefix, layout=self.layout)
        return Install(Prefix(site.prefix), entry, digest)


def read_input(entry: Entry, recipe: Recipe, model: type[Model]) -> Model:
    """Return the recipe's `input` as its backend's own model. Raises InputError `recipe-invalid`."""
    from pydantic import ValidationError

    try:
        return model.model_validate(recipe.input)
    except ValidationError as error:
        raise InputError(
            "recipe-invalid", f"the {recipe.backend} input of {entry} has faults", context=_input_faults(error)
        ) from None


def _input_faults(error: ValidationError) -> list[str]:
    from envmgr.system.models import each_fault
    from envmgr.system.yamlfile import reason_of

    return [
        f"{'.'.join(map(str, ('input', *fault['loc'])))}: {line}"
        for fault in error.errors(include_url=False)
        for each in each_fault(reason_of(fault))
        for line in each.splitlines()
    ]


@cache
def backend_names() -> tuple[str, ...]:
    import pkgutil  # workers, which lie in this package, start without it

    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")))


@cache
def get_backend(name: str) -> Backend:
    """Return the backend in `envmgr.backends.<name>`, or in its `backend` module if that is a folder.

    Raises InputError if there is no such backend.
    """
    if name not in backend_names():
        raise InputError(
            "unknown-backend", f"there is no backend `{name}`", hint=f"known: {', '.join(backend_names())}"
        )
    module = importlib.import_module(f"{__name__}.{name}")
    if hasattr(module, "__path__"):
        module = importlib.import_module(f"{__name__}.{name}.backend")
    own = [
        each
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, Backend)
        # Classes that the module imports, such as `Backend` itself, are not its own.
        and each.__module__ == module.__name__
        # A subclass would inherit the attribute.
        and each.__dict__.get("name") == name
    ]
    if len(own) != 1:
        raise TypeError(f"{module.__name__} must have one Backend whose name is `{name}`")
    made: Backend = own[0]()
    return made


def locked_packages(entry: Entry, recipe: Recipe, folder: Path, site: Site) -> Mapping[str, str]:
    """Return name -> `version build` of the lock in `folder`, stale or not; empty without one that can be read."""
    from envmgr.catalog.locks import StaleLock

    try:
        return get_backend(recipe.backend).load_lock(entry, recipe, folder, site).packages
    except StaleLock as stale:
        return stale.packages
    except EnvmgrError:
        return {}


def require_settings(site: Site) -> None:
    """Raise InputError `site-invalid`, with every fault, if the site has settings that no backend understands.

    Each backend checks its own part.
    """
    from envmgr.catalog.settings import require_no_faults

    known = backend_names()
    require_no_faults(site, {name: get_backend(name).settings for name in site.backends if name in known}, known)


def all_backends() -> list[Backend]:
    return [get_backend(name) for name in backend_names()]
