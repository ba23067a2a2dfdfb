"""A backend turns a recipe into a lock and a lock into installs: one folder or file of this package each, behind this contract.

`Backend` is what a backend knows of recipes, of the site and of its own folders; `LoadedLock` is a lock as an object of its
backend. What most backends do not need has a default here. CONTRIBUTING.md shows a whole backend.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from envmgr.errors import InputError

if TYPE_CHECKING:  # the worker of a backend lies in this package, too, and starts without all that
    from pydantic import BaseModel, ValidationError

    from envmgr.catalog.lock_rules import LockFacts
    from envmgr.catalog.names import Entry
    from envmgr.catalog.recipe import Recipe
    from envmgr.catalog.settings import SiteFact
    from envmgr.catalog.site import Site
    from envmgr.catalog.target import Target
    from envmgr.downloads import Fetched, Given
    from envmgr.nodes import JobOptions
    from envmgr.report import Reporter
    from envmgr.store.manifest import InstallFacts
    from envmgr.store.prefix import Install, Item, Prefix
    from envmgr.system.run import Runner

Model = TypeVar("Model", bound="BaseModel")


def _no_facts() -> LockFacts:
    from envmgr.catalog.lock_rules import LockFacts

    return LockFacts()


@dataclass(frozen=True, slots=True)
class LockResult:
    """What locking gave: file name -> text for the recipe's folder, and name -> `version build`. `facts` are judged before it is written,
    with those of the entries `below`.
    """

    files: Mapping[str, str]
    packages: Mapping[str, str]
    notes: tuple[str, ...] = ()
    facts: LockFacts = field(default_factory=_no_facts)
    below: tuple[LoadedEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class LockOptions:
    """`solver` is one of the backend's `solvers` (None: its first one, where it has any).

    `places` maps channel -> URL or folder to solve from.
    """

    solver: str | None = None
    places: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """What a finished install is: its facts for the module, and path -> sha256 as its sources promise it.

    `tools` are the versions of what made it, `made` what was built on the way, for the record, with the `path` at which it was.
    `extra` are files that belong to it and lie elsewhere below the prefix: its manifest holds them to their sha256, and they go with it.
    """

    facts: InstallFacts
    expected: Mapping[str, str]
    tools: Mapping[str, str]
    extra: tuple[Path, ...] = ()
    made: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A folder of a backend below the prefix. `public`: every user reads what lies in its folders, whatever the umask."""

    path: Path
    public: bool = False


@dataclass(frozen=True, slots=True)
class GpuCodes:
    """For which GPUs of a vendor (`nvidia`, `amd`) the site has software compiled: what its `field` says."""

    field: str
    vendor: str
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLock(ABC):
    """A lock that answers its recipe. Each backend has a class of its own, which holds what it read; it changes nothing.

    `sha256` is of the lock's text; `packages` maps name -> `version build`; `licences` are the words that the site must have
    in `policies.licences` before anything of it is fetched or built; `extensions` are `name/version` for the module;
    `python` is whether the entry's own install will have a Python, `python_version` that of a Python that others can stand on
    (`3.11.7`). `download` and `installed` are bytes. All four are None where the lock does not tell. `notes` are for the user that
    checks or builds it. `below` are other entries of the catalog on whose installs its own stand.
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

    @abstractmethod
    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        """The installs that the lock stands for, in build order; the entry's own is the last. See `Backend.install`.

        Those of entries `below` are not among them, only among what they need.
        """

    @abstractmethod
    def fetch(self, site: Site, runner: Runner, reporter: Reporter, *, given: Given, dry_run: bool = False) -> Fetched:
        """Bring every file that the lock names into the prefix's cache, checked; install nothing.

        `given` are files that the administrator named, those of other entries too. What is not there and cannot be had is one
        error. A dry run tells what is missing, and changes nothing.
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
        """Bring the tools that the lock names, too, which `fetch` leaves out where this machine has them installed: another may not.

        As `fetch` otherwise.
        """
        from envmgr.downloads import Fetched

        return Fetched(())

    @abstractmethod
    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:
        """Put the install at `item.install.path`, read-only, without its manifest; on failure leave nothing behind.

        What it `needs` is there. The caller holds the install's lock. `jobs` is how many cores it may use.
        """

    def facts(self, *, checked: bool = False) -> LockFacts:  # noqa: ARG002 - most cost nothing
        """What of it, and of the recipe's input, is judged: as `LockResult.facts`, and by what is seen of its text.

        `checked`: it was built or published as it is, so that whether it answers its recipe need not be asked again.
        """
        return _no_facts()

    def cuda(self) -> str | None:
        """The CUDA version that it brings, such as `12.1`; None without CUDA."""
        return None

    def cuda_compat(self) -> str:
        """The CUDA version of its `cuda-compat` (forward compatibility); empty without."""
        return ""

    def may_build(self) -> None:  # noqa: B027 - most need nothing
        """Raises EnvmgrError where this user can build nothing at all; before anything is written."""

    def prepare(
        self,
        items: Sequence[Item],
        site: Site,
        runner: Runner,
        reporter: Reporter,
        *,
        elsewhere: JobOptions | None = None,
    ) -> None:
        """Make sure, before the first of them is built, of what the missing `items` need besides each other.

        `elsewhere` is for items that are built on other hosts, by Slurm jobs that ask for this: all that comes over a network is
        brought under the prefix, and what only concerns the host that builds is not looked at. Raises EnvmgrError for what is
        lacking, of all of them at once.
        """
        if elsewhere is not None and items:
            self.fetch(site, runner, reporter, given={})

    def pack(self, site: Site, folder: Path) -> Site:  # noqa: ARG002 - most locks stand for themselves
        """Copy into `folder` what `load_lock` and `build` read besides the lock and the prefix; the site that finds it there.

        The host that builds sees neither catalogs nor folders of the site that lie outside of the prefix.
        """
        return site


@dataclass(frozen=True, slots=True)
class LoadedEntry:
    """An entry with all that builds it: its recipe, the folder that the recipe lies in, its lock."""

    recipe: Recipe
    folder: Path
    lock: LoadedLock


class Backend(ABC):
    """What envmgr asks of a backend. It has no state: all effects are on the paths given, through the runner given.

    `name` is the module's own, and what recipes call it. `layout` is part of every digest, and counts up when the backend
    makes something else of the same lock; installs of an older layout stay in use until their lock changes. Installs that a
    new layout does not change keep their number: see `install`. `input` is what a recipe says to it, `settings` what the site may say under `backends.<name>`; `old_keys` maps fields that once stood at the
    top of the site file to the settings that they are now. `solvers` are the words of `--solver`, the first one by default.
    `stages` is whether it makes an install beside its place and ends with `land`, so that a damaged one can be replaced at once;
    `reproducible`, whether that has for sure the tree digest that the damaged one had.
    """

    name: ClassVar[str]
    stages: ClassVar[bool] = False
    reproducible: ClassVar[bool] = True
    layout: ClassVar[int] = 1
    input: ClassVar[type[BaseModel]]
    settings: ClassVar[type[BaseModel] | None] = None
    old_keys: ClassVar[Mapping[str, str]] = {}
    solvers: ClassVar[tuple[str, ...]] = ()

    def faults(self, recipe: Recipe, site: Site) -> list[str]:  # noqa: ARG002 - most inputs stand for themselves
        """What is wrong with the recipe's `input`, each as `field: reason`; no network, no effects."""
        from pydantic import ValidationError

        try:
            self.input.model_validate(recipe.input)
        except ValidationError as error:
            return _input_faults(error)
        return []

    def remarks(self, recipe: Recipe, site: Site) -> list[str]:  # noqa: ARG002 - most backends have none
        """What whoever reviews an `input` without faults should look at, each as `field: what`; no network, no effects."""
        return []

    @abstractmethod
    def lock(
        self, entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> LockResult:
        """Resolve the recipe. Writes nothing into the catalog; the same answers give the same text."""

    @abstractmethod
    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedLock:
        """Read the lock beside the recipe. Raises EnvmgrError `lock-missing`, `lock-stale`, InputError `lock-invalid`."""

    @abstractmethod
    def read_packages(self, folder: Path) -> Mapping[str, str]:
        """name -> `version build` of whatever lock is there, stale or not; empty without one."""

    def channels(self, recipe: Recipe, site: Site) -> Collection[str]:  # noqa: ARG002 - most backends have none
        """The names that `LockOptions.places` may have. Raises InputError."""
        return ()

    def explain(self, site: Site) -> Iterable[SiteFact]:  # noqa: ARG002 - most backends have none
        """What the backend's settings mean on this machine, and what is wrong with them; asks no network."""
        return ()

    def gpu_codes(self, site: Site) -> Sequence[GpuCodes]:  # noqa: ARG002 - most backends compile nothing
        """For which GPUs it compiles, where the site says that; no row for what the site leaves open."""
        return ()

    def reads(self, site: Site) -> Sequence[Path]:  # noqa: ARG002 - most backends have none
        """Folders of the site that its builds read, besides the catalogs; those that are there."""
        return ()

    def beside(self, recipe: Recipe, site: Site) -> Mapping[Path, Path]:  # noqa: ARG002 - most recipes stand for themselves
        """Files that ship with envmgr and belong to a shipped recipe -> where a copy of it has its own."""
        return {}

    def folders(self, prefix: Prefix) -> Sequence[OwnFolder]:  # noqa: ARG002 - most backends have none
        """Its own folders below the prefix, outermost first: made, as the site's policies say, before it is used first."""
        return ()

    def clear_dead_build(self, install: Install) -> None:  # noqa: B027 - most need nothing
        """A build of the install died: remove what it left besides its tree, its folder and its row in the job table.

        The caller holds the install's lock. Nothing for an install of another backend. Raises OSError.
        """

    def may_replace(self, install: Install, runner: Runner) -> None:  # noqa: B027 - most that stage can do so anywhere
        """Of a backend that stages: EnvmgrError `repair-impossible` where an install that is there cannot be made again here."""

    def clean(self, prefix: Prefix, reporter: Reporter) -> None:  # noqa: B027 - most need nothing
        """Remove from its own folders what runs that were killed left; what belongs to a lock that is held stays."""

    def install(
        self, entry: Entry, identity: object, site: Site, target: Target, *, newest: int | None = None
    ) -> Install:
        """Where the install of `entry` lies whose bytes are decided by `identity` (JSON), whether or not it is there.

        `newest` is the last layout that changed such an install; None is the backend's own.
        """
        from envmgr.store.prefix import Prefix, find_install

        newest = self.layout if newest is None else newest
        return find_install(Prefix(site.prefix), entry, self.name, identity, target, layout=newest)


def read_input(entry: Entry, recipe: Recipe, model: type[Model]) -> Model:
    """The recipe's `input`, as its backend's own model. InputError `recipe-invalid`, with each fault's field."""
    from pydantic import ValidationError

    try:
        return model.model_validate(recipe.input)
    except ValidationError as error:
        raise InputError(
            "recipe-invalid", f"the {recipe.backend} input of {entry} has faults", context=_input_faults(error)
        ) from None


def _input_faults(error: ValidationError) -> list[str]:
    from envmgr.system.yamlfile import reason_of

    return [
        f"input.{'.'.join(str(part) for part in fault['loc'])}: {reason_of(fault)}"
        for fault in error.errors(include_url=False)
    ]


def backend_names() -> list[str]:
    import pkgutil  # workers, which lie in this package, start without it

    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def get_backend(name: str) -> Backend:
    """The backend of `envmgr.backends.<name>`: of its `backend` module where that is a folder.

    InputError for one that does not exist.
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
        and each.__module__ == module.__name__
        and each.__dict__.get("name") == name
    ]
    if len(own) != 1:
        raise TypeError(f"{module.__name__} must have one Backend whose name is `{name}`")
    made: Backend = own[0]()
    return made


def require_settings(site: Site) -> None:
    """InputError `site-invalid`, with every fault, where the site says what no backend understands: each checks its own part."""
    from envmgr.catalog.settings import require_no_faults

    known = backend_names()
    require_no_faults(site, {name: get_backend(name).settings for name in site.backends if name in known}, known)


def old_keys() -> dict[str, tuple[str, str]]:
    """Fields that once stood at the top of the site file -> the backend whose setting each is now, and its name there."""
    return {key: (each.name, name) for each in all_backends() for key, name in each.old_keys.items()}


def all_backends() -> list[Backend]:
    return [get_backend(name) for name in backend_names()]
