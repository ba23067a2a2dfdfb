"""The page's data: `catalog.json`, which other programs may read, is `PageGeneration`."""

from __future__ import annotations

import datetime
from typing import Literal

from envmgr.catalog.recipe_parts import Requires
from envmgr.system.models import FrozenModel

FORMAT = 1
"""The number of the format of `catalog.json` and `status.json`."""


class Since(FrozenModel):
    """The generation in which an entry came, and when. `or_earlier`: earlier ones are gone, and may have had it."""

    generation: int
    created: str
    or_earlier: bool = False


class PageInstall(FrozenModel):
    """An install. `packages` is name -> `version build`; None where its manifest cannot be read: it is not known.
    `locks` are files of the page.
    """

    entry: str
    backend: str = ""
    packages: dict[str, str] | None = None
    locks: tuple[str, ...] = ()


class GpuCode(FrozenModel):
    """The GPUs and drivers for which an entry has code. `codes` are None where they are not known.

    `runs_from` is the oldest driver for its machine code, `compiles_from` the first branch of drivers that compile for
    it; each is empty where no table has it.
    """

    cuda: str
    codes: tuple[str, ...] | None
    runs_from: str
    compiles_from: str
    compat: str


class PageTest(FrozenModel):
    name: str
    needs: tuple[str, ...] = ()
    nodes: int = 1


class Deprecation(FrozenModel):
    """`until` is when the entry goes away; `message` says what follows."""

    message: str
    until: datetime.date


class PageEntry(FrozenModel):
    """An entry. `parts` are keys of the catalog's parts: its own install, then those that it stands on.

    `default` says that a load without a version takes this one. `job` is a script for sbatch. `not_ours` is the
    tree that its module leads to, where envmgr neither made nor keeps the software. `sbom` is a file of the page, empty
    if there is none.
    """

    entry: str
    name: str
    version: str
    digest: str
    description: str
    homepage: str
    licence: str
    category: str
    help: str
    load: str
    job: str
    default: bool
    hidden: bool
    families: tuple[str, ...]
    depends: tuple[str, ...]
    dependents: tuple[str, ...]
    requires: Requires
    gpu: GpuCode | None
    tests: tuple[PageTest, ...]
    since: Since
    deprecated: Deprecation | None
    not_ours: str
    parts: tuple[str, ...]
    sbom: str = ""


class PagePackageChange(FrozenModel):
    """`old` or `new` is empty for a package that came or went."""

    name: str
    old: str
    new: str


class EntryChange(FrozenModel):
    """A changed entry: another install, or the same one with another module. `more` is how many changes of packages are
    left out.
    """

    entry: str
    change: Literal["install", "module"]
    packages: tuple[PagePackageChange, ...] = ()
    more: int = 0


class News(FrozenModel):
    """One generation against its parent. `compared` is False where the parent is gone: then nothing is known."""

    number: int
    parent: int | None
    created: str
    reason: str
    compared: bool = True
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[EntryChange, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All entries that came, went or changed."""
        return (*self.added, *self.removed, *(each.entry for each in self.changed))


class PageGeneration(FrozenModel):
    """A generation. `news` has the newest generation first, and only those that it was made from."""

    schema_version: int = FORMAT
    site: str
    generation: int
    created: str
    entries: tuple[PageEntry, ...]
    parts: dict[str, PageInstall]
    news: tuple[News, ...]
