"""Parts of the contract for some backends: each group is for those with one property, and has the others' defaults.

A group for `Backend` knows recipes and the site; a group for `LoadedLock` has a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:  # a backend's worker also lies in this package, and starts without these imports
    from pydantic import BaseModel

    from envmgr.catalog.names import Entry
    from envmgr.catalog.recipe import Recipe
    from envmgr.catalog.settings import SiteFact
    from envmgr.catalog.site import Site
    from envmgr.downloads import Fetched
    from envmgr.downloads.fetch import DownloadSet
    from envmgr.errors import EnvmgrError
    from envmgr.nodes.jobs import JobOptions
    from envmgr.report import Reporter
    from envmgr.store.parts import Part
    from envmgr.store.prefix import Install, Item, Prefix
    from envmgr.system.run import Runner


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
class OwnFolder:
    """A folder of a backend below the prefix. If `public`, every user can read its files, independent of the umask."""

    path: Path
    public: bool = False


class SiteSettings:
    """Only if the site file has a part for it: `settings` is the model of `backends.<name>`."""

    settings: ClassVar[type[BaseModel] | None] = None

    def explain(self, site: Site) -> Iterable[SiteFact]:
        """Return what is wrong with these settings on this machine; no network."""
        return ()

    def reads(self, site: Site) -> Sequence[Path]:
        """Return the existing folders of the site, other than the catalogs, that its builds read."""
        return ()


class Solver:
    """Only if a solver chooses packages: `solvers` are the values of `--solver`, the default first. `upgrades` says that
    `lock` knows `LockOptions.upgrade`.
    """

    solvers: ClassVar[tuple[str, ...]] = ()
    upgrades: ClassVar[bool] = False

    def channels(self, recipe: Recipe, site: Site) -> Collection[str]:
        """Return the names that `LockOptions.places` may have. Raises InputError."""
        return ()


class NamedThings:
    """Only if a faultless `input` names files, entries or places that may be missing, or that a reviewer must see."""

    def missing(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> Iterable[EnvmgrError]:
        """Yield the faults of the files and entries that it names; this needs no lock and no network."""
        return ()

    def remarks(self, recipe: Recipe, site: Site) -> list[str]:
        """Return what a reviewer should look at, each as `field: remark`. No network."""
        return []

    def beside(self, recipe: Recipe, site: Site) -> Mapping[Path, Path]:
        """Map each file of a shipped recipe to the place where a copy of the recipe keeps its own."""
        return {}


class ManyParts:
    """Only if an install has other parts than the packages that its manifest names."""

    name: ClassVar[str]

    def parts(self, provenance: Mapping[str, Any], texts: Mapping[str, str]) -> Iterable[Part]:
        """Return the packages of an install by its manifest's provenance, and the `texts` of the lock that it was built
        from.

        Raises ValueError, KeyError, TypeError for texts that are no such lock.
        """
        from envmgr.store.parts import recorded_parts

        return recorded_parts(provenance, self.name)


class FilesOutside:
    """Only if it keeps files below the prefix that are not in an install."""

    def folders(self, prefix: Prefix) -> Sequence[OwnFolder]:
        """Return its own folders below the prefix, outermost first; they are made under the site's policies."""
        return ()

    def clean(self, prefix: Prefix, reporter: Reporter) -> None:
        """Remove from its own folders what killed runs left. Files of a lock that is held stay."""

    def clear_dead_build(self, install: Install) -> None:
        """Remove what a dead build of the install left, except its tree, its folder and its row in the job table.

        The caller holds the install's lock. Does nothing for an install of another backend. Raises OSError.
        """

    def extra_files(self, install: Install) -> Sequence[Path]:
        """Return the files of an install that lie elsewhere below the prefix: `Built.extra` of its build."""
        return ()


class SolvedLock:
    """Only if a solver can be asked about a lock."""

    __slots__ = ()

    def solve_again(
        self, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> Mapping[str, str] | None:
        """Return the packages that a solver chooses that may take no other version of those in the lock; None if the
        backend has no solver. Raises EnvmgrError as `Backend.lock`; `unsolvable` if they do not fit together.
        """
        return None


class BuildTool:
    """Only if builds need more than the files of the lock: a tool, packages of the host, a user of their own."""

    __slots__ = ()
    if TYPE_CHECKING:
        fetch: Callable[..., Fetched]

    def tools(self, site: Site) -> Sequence[DownloadSet]:
        """Return the files of the tools that the lock names. Another machine may need them where this one does not."""
        return ()

    def needs_tools(self, site: Site) -> bool:
        """Return whether a build on this machine would need the files of `tools`."""
        return False

    def may_build(self) -> None:
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
            self.fetch(site, runner, reporter)


class FilesBeside:
    """Only if a lock is more than one text that says everything."""

    __slots__ = ()

    def texts(self, recipe: Recipe) -> Mapping[str, str]:
        """Return the files that `load_lock` reads beside the recipe: the manifest keeps them."""
        return {}

    def pack(self, site: Site, folder: Path) -> Site:
        """Copy into `folder` what `load_lock` and `build` read in addition to the lock and the prefix; return a site
        that finds it there.

        The building host sees neither catalogs nor folders of the site that lie outside the prefix.
        """
        return site
