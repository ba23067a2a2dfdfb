"""A backend turns a recipe into a lock and a lock into an install. Each is one module of this package; this is its contract."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import Site
from envmgr.catalog.target import Target
from envmgr.downloads import Fetched, Given
from envmgr.errors import InputError
from envmgr.report import Reporter
from envmgr.store.manifest import InstallFacts
from envmgr.store.prefix import Item
from envmgr.system.run import Runner


@dataclass(frozen=True, slots=True)
class LoadedLock:
    """A lock as the rest of envmgr sees it, whatever the ecosystem.

    `licences` are the words that the site must have in `policies.licences` before anything of it is fetched or built;
    `identity` decides the install's bytes (JSON); `sha256` is of the lock's text; `packages` maps name -> `version build`;
    `extensions` are `name/version` for the module; `download` and `installed` are bytes, None where the lock does not tell;
    `data` is the backend's own.
    """

    entry: Entry
    sha256: str
    licences: tuple[str, ...]
    identity: Any
    packages: Mapping[str, str]
    extensions: tuple[str, ...]
    download: int | None
    installed: int | None
    data: Any


@dataclass(frozen=True, slots=True)
class LockResult:
    """What locking gave: file name -> text for the recipe's folder, and name -> `version build`."""

    files: Mapping[str, str]
    packages: Mapping[str, str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Realised:
    """What a finished install is: its facts for the module, and path -> sha256 as its sources promise it.

    `tools` are the versions of what made it.
    """

    facts: InstallFacts
    expected: Mapping[str, str]
    tools: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LockOptions:
    """`solver` is the backend's name for one (None: its first choice); `places` maps channel -> URL or folder to solve from."""

    solver: str | None = None
    places: Mapping[str, str] | None = None


class Backend(Protocol):
    """The functions a backend module offers. All effects are on the paths given, through the runner given."""

    def faults(self, recipe: Recipe, site: Site) -> list[str]:
        """What is wrong with the recipe's `input`, each as `field: reason`; no network, no effects."""

    def lock(
        self, entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> LockResult:
        """Resolve the recipe. Writes nothing into the catalog."""

    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedLock:
        """Read the lock beside the recipe. Raises EnvmgrError `lock-missing`, `lock-stale`, InputError `lock-invalid`."""

    def items(self, lock: LoadedLock, site: Site, target: Target) -> tuple[Item, ...]:
        """The installs that the lock stands for, in build order; the entry's own is the last."""

    def lock_faults(self, entry: Entry, recipe: Recipe, folder: Path) -> list[str]:
        """What a careful reader would find wrong with a lock that loads: recipe and lock that contradict each other."""

    def read_packages(self, folder: Path) -> Mapping[str, str]:
        """name -> `version build` of whatever lock is there, stale or not; empty without one."""

    def may_build(self) -> None:
        """Raises EnvmgrError where this user can build nothing at all; before anything is written."""

    def prepare(
        self,
        lock: LoadedLock,
        items: Sequence[Item],
        site: Site,
        runner: Runner,
        reporter: Reporter,
        *,
        elsewhere: bool = False,
    ) -> None:
        """Make sure, before the first of them is built, of what the missing `items` need besides each other.

        `elsewhere` is for items that are built on other hosts: all that comes over a network is brought under the prefix, and
        what only concerns the host that builds is not looked at. Raises EnvmgrError for what is lacking, of all of them at once.
        """

    def pack(self, lock: LoadedLock, site: Site, folder: Path) -> Site:
        """Copy into `folder` what `load_lock` and `realise` read besides the lock and the prefix; the site that finds it there.

        The host that builds sees neither catalogs nor folders of the site that lie outside of the prefix.
        """

    def realise(
        self, lock: LoadedLock, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int
    ) -> Realised:
        """Put the install at `item.install.path`, read-only, without its manifest; on failure leave nothing behind.

        What it `needs` is there.
        """

    def fetch(
        self,
        lock: LoadedLock,
        site: Site,
        runner: Runner,
        reporter: Reporter,
        *,
        given: Given,
        dry_run: bool = False,
    ) -> Fetched:
        """Bring every file that the lock names into the prefix's cache, checked; install nothing.

        `given` are files that the administrator named, those of other entries too. What is not there and cannot be had is one
        error. A dry run tells what is missing, and changes nothing.
        """


def backend_names() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def get_backend(name: str) -> Backend:
    """The module `envmgr.backends.<name>`; InputError for one that does not exist."""
    if name not in backend_names():
        raise InputError(
            "unknown-backend", f"there is no backend `{name}`", hint=f"known: {', '.join(backend_names())}"
        )
    return cast("Backend", importlib.import_module(f"{__name__}.{name}.backend"))
