"""The contract of backends: a backend turns a recipe into a lock, and a lock into installs.

Each backend is one folder or file of this package. `Backend` is what a backend knows about recipes, the site and its
own folders; `LoadedLock` is a lock as an object of its backend. Methods that most backends do not need have a default
here. CONTRIBUTING.md shows a complete backend.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from envmgr.errors import EnvmgrError, InputError

if TYPE_CHECKING:  # a backend's worker also lies in this package, and starts without these imports
    from pydantic import BaseModel, ValidationError

    from envmgr.catalog.lock_rules import LockFacts
    from envmgr.catalog.names import Entry
    from envmgr.catalog.recipe import Recipe
    from envmgr.catalog.settings import SiteFact
    from envmgr.catalog.site import Site, Target
    from envmgr.downloads import Fetched, Given
    from envmgr.nodes.jobs import JobOptions
    from envmgr.report import Reporter
    from envmgr.store.manifest import InstallFacts
    from envmgr.store.parts import Part
    from envmgr.store.prefix import Install, Item, Prefix
    from envmgr.system.run import Runner

Model = TypeVar("Model", bound="BaseModel")


def _no_facts() -> LockFacts:
    from envmgr.catalog.lock_rules import LockFacts

    return LockFacts()


@dataclass(frozen=True, slots=True)
class LockResult:
    """The result of locking a recipe.

    `files` maps file name -> text for the recipe's folder, `packages` maps name -> `version build`. `facts`, together
    with those of the entries `below`, are judged before any file is written. With `problems`, which a person has to
    decide, none is.
    """

    files: Mapping[str, str]
    packages: Mapping[str, str]
    notes: tuple[str, ...] = ()
    facts: LockFacts = field(default_factory=_no_facts)
    below: tuple[LoadedEntry, ...] = ()
    problems: tuple[EnvmgrError, ...] = ()


@dataclass(frozen=True, slots=True)
class LockOptions:
    """Options for locking.

    `solver` is one of the backend's `solvers`; None selects the first one, if the backend has any. `places` maps
    channel -> URL or folder to solve from. With `upgrade`, names of packages of the lock that is there, these move with
    what they need, and the lock keeps its other packages as far as they fit.
    """

    solver: str | None = None
    places: Mapping[str, str] | None = None
    upgrade: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A folder of a backend below the prefix. If `public`, every user can read its files, independent of the umask."""

    path: Path
    public: bool = False


@dataclass(frozen=True, slots=True)
class GpuCodes:
    """The GPUs of one vendor (`nvidia`, `amd`) for which the site compiles software, as its `field` lists them."""

    field: str
    vendor: str
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLock(ABC):
    """A lock that answers its recipe.

    Each backend has a subclass that holds what it read; objects of it change nothing. `sha256` is the digest of the
    lock's text. `packages` maps name -> `version build`. `licences` are the words that the site must list in
    `policies.licences` before any part is fetched or built. `extensions` are `name/version` for the module. `python`
    says whether the entry's own install will have a Python. `python_version` is the version of a Python that other
    entries can be built on (`3.11.7`). `download` and `installed` are bytes. All four are None where the lock does not
    say. `notes` are for the user who checks or builds the lock. `below` are other entries of the catalog whose installs
    this one needs. `outside` is the tree of software that somebody else made, where the install only leads to it: that
    is not ours, and can change; empty otherwise.
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
    below: tuple[LoadedEntry, ...] = ()
    outside: str = ""

    @abstractmethod
    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        """Return the installs of the lock in build order; the entry's own is the last. See `Backend.install`.

        Installs of entries `below` are not included; they appear only among what these items need.
        """

    @abstractmethod
    def fetch(self, site: Site, runner: Runner, reporter: Reporter, *, given: Given, dry_run: bool = False) -> Fetched:
        """Bring every file that the lock names into the prefix's cache and check it; install nothing.

        `given` are files that the administrator named, including files of other entries. All files that are missing and
        cannot be fetched are reported as one error. A dry run reports what is missing and changes nothing.
        """

    def fetch_tools(
        self,
        site: Site,  # noqa: ARG002 - most builds need no tool
        runner: Runner,  # noqa: ARG002
        reporter: Reporter,  # noqa: ARG002
        *,
        given: Given,  # noqa: ARG002
        dry_run: bool = False,  # noqa: ARG002
    ) -> Fetched:
        """Bring the tools that the lock names into the cache, even if this machine has them installed.

        `fetch` leaves those out, but another machine may lack them. Otherwise this works like `fetch`.
        """
        from envmgr.downloads import Fetched

        return Fetched(())

    @abstractmethod
    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:
        """Put the install at `item.install.path`, read-only, without its manifest; on failure leave nothing behind.

        Everything that the item `needs` is present. The caller holds the install's lock. `jobs` is the number of cores
        to use.
        """

    def facts(self) -> LockFacts:
        """Return what is judged of the lock and of the recipe's input: as `LockResult.facts`, and by the lock's text."""
        return _no_facts()

    def solve_again(
        self,
        site: Site,  # noqa: ARG002 - most locks are no solver's
        runner: Runner,  # noqa: ARG002
        reporter: Reporter,  # noqa: ARG002
        options: LockOptions,  # noqa: ARG002
    ) -> Mapping[str, str] | None:
        """Return the packages that a solver chooses that may take no other version of those in the lock; None if the
        backend has no solver. Raises EnvmgrError as `Backend.lock`; `unsolvable` if they do not fit together.
        """
        return None

    def cuda(self) -> str | None:
        """Return the CUDA version that the lock brings, such as `12.1`; None without CUDA."""
        return None

    def cuda_compat(self) -> str:
        """Return the CUDA version of its `cuda-compat` (forward compatibility); empty without one."""
        return ""

    def texts(self, recipe: Recipe) -> Mapping[str, str]:  # noqa: ARG002 - nothing stands on most locks
        """Return the files that `load_lock` reads beside the recipe: the manifest keeps them."""
        return {}

    def may_build(self) -> None:  # noqa: B027 - most need nothing
        """Raise EnvmgrError if this user cannot build anything at all; called before anything is written."""

    def prepare(
        self,
        items: Sequence[Item],
        site: Site,
        runner: Runner,
        reporter: Reporter,
        *,
        elsewhere: JobOptions | None = None,
    ) -> None:
        """Provide what the missing `items` need in addition to each other, before the first of them is built.

        `elsewhere` is for items that are built on other hosts, by Slurm jobs with these options. Then everything that
        comes over a network is brought under the prefix, and checks that concern only the building host are skipped.
        Raises one EnvmgrError for everything that is missing, for all items.
        """
        if elsewhere is not None and items:
            self.fetch(site, runner, reporter, given={})

    def pack(self, site: Site, folder: Path) -> Site:  # noqa: ARG002 - most locks stand for themselves
        """Copy into `folder` what `load_lock` and `build` read in addition to the lock and the prefix; return a site
        that finds it there.

        The building host sees neither catalogs nor folders of the site that lie outside the prefix.
        """
        return site


@dataclass(frozen=True, slots=True)
class LoadedEntry:
    """An entry with everything that builds it: its recipe, the recipe's folder, and its lock."""

    recipe: Recipe
    folder: Path
    lock: LoadedLock


class Backend(ABC):
    """The interface of a backend. A backend has no state: it acts only on the paths given, through the runner given.

    `name` is the module's own name, which recipes use. `layout` is part of every digest; it is increased when the
    backend makes a different install from the same lock. `input` is the model of a
    recipe's `input`; `settings` is the model of `backends.<name>` in the site file. `solvers` are the values of
    `--solver`; the first one is the default. `upgrades` says that `lock` knows `LockOptions.upgrade`.
    """

    name: ClassVar[str]
    layout: ClassVar[int] = 1
    input: ClassVar[type[BaseModel]]
    settings: ClassVar[type[BaseModel] | None] = None
    solvers: ClassVar[tuple[str, ...]] = ()
    upgrades: ClassVar[bool] = False

    def faults(self, recipe: Recipe, site: Site) -> list[str]:  # noqa: ARG002 - most inputs stand for themselves
        """Return the faults of the recipe's `input`, each as `field: reason`; no network, no effects."""
        from pydantic import ValidationError

        try:
            self.input.model_validate(recipe.input)
        except ValidationError as error:
            return _input_faults(error)
        return []

    def missing(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> Iterable[EnvmgrError]:  # noqa: ARG002 - most inputs name nothing
        """Yield the faults of the files and entries that a faultless `input` names; it needs no lock and no network."""
        return ()

    def remarks(self, recipe: Recipe, site: Site) -> list[str]:  # noqa: ARG002 - most backends have none
        """Return what a reviewer of a faultless `input` should look at, each as `field: remark`. No network."""
        return []

    @abstractmethod
    def lock(
        self, entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> LockResult:
        """Resolve the recipe. This writes nothing into the catalog; the same answers give the same text."""

    @abstractmethod
    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedLock:
        """Read the lock next to the recipe. Raises `lock-missing`, `lock-stale` or `lock-invalid`."""

    @abstractmethod
    def read_packages(self, folder: Path) -> Mapping[str, str]:
        """Return name -> `version build` of the lock in `folder`, stale or not; empty without a lock."""

    def parts(self, provenance: Mapping[str, Any], texts: Mapping[str, str]) -> Iterable[Part]:  # noqa: ARG002
        """Return the packages of an install by its manifest's provenance, and the `texts` of the lock that it was built
        from.

        Raises ValueError, KeyError, TypeError for texts that are no such lock.
        """
        from envmgr.store.parts import recorded_parts

        return recorded_parts(provenance, self.name)

    def channels(self, recipe: Recipe, site: Site) -> Collection[str]:  # noqa: ARG002 - most backends have none
        """Return the names that `LockOptions.places` may have. Raises InputError."""
        return ()

    def explain(self, site: Site) -> Iterable[SiteFact]:  # noqa: ARG002 - most backends have none
        """Return what is wrong with the backend's settings on this machine; no network."""
        return ()

    def gpu_codes(self, site: Site) -> Sequence[GpuCodes]:  # noqa: ARG002 - most backends compile nothing
        """Return the GPUs for which the backend compiles; no row for what the site leaves open."""
        return ()

    def reads(self, site: Site) -> Sequence[Path]:  # noqa: ARG002 - most backends have none
        """Return the existing folders of the site, other than the catalogs, that the backend's builds read."""
        return ()

    def beside(self, recipe: Recipe, site: Site) -> Mapping[Path, Path]:  # noqa: ARG002 - most recipes stand for themselves
        """Map each file of a shipped recipe to the place where a copy of the recipe keeps its own."""
        return {}

    def folders(self, prefix: Prefix) -> Sequence[OwnFolder]:  # noqa: ARG002 - most backends have none
        """Return its own folders below the prefix, outermost first; they are made under the site's policies."""
        return ()

    def clear_dead_build(self, install: Install) -> None:  # noqa: B027 - most need nothing
        """Remove what a dead build of the install left, except its tree, its folder and its row in the job table.

        The caller holds the install's lock. Does nothing for an install of another backend. Raises OSError.
        """

    def extra_files(self, install: Install) -> Sequence[Path]:  # noqa: ARG002 - most have all in the install
        """Return the files of an install that lie elsewhere below the prefix: `Built.extra` of its build."""
        return ()

    def clean(self, prefix: Prefix, reporter: Reporter) -> None:  # noqa: B027 - most need nothing
        """Remove from its own folders what killed runs left. Files of a lock that is held stay."""

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


def require_settings(site: Site) -> None:
    """Raise InputError `site-invalid`, with every fault, if the site has settings that no backend understands.

    Each backend checks its own part.
    """
    from envmgr.catalog.settings import require_no_faults

    known = backend_names()
    require_no_faults(site, {name: get_backend(name).settings for name in site.backends if name in known}, known)


def all_backends() -> list[Backend]:
    return [get_backend(name) for name in backend_names()]
