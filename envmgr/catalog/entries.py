"""The catalog: recipes under one or more folders. The first folder that has an entry wins; the shipped one is last and
read-only. No link that leads out of a folder is followed.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envmgr.catalog.names import MODULE_NAME, Entry, catalog_of, fault_in_part, nearest, parse_entry, sort_key
from envmgr.catalog.recipe import Recipe, Software, load_recipe, load_software, load_sound_recipe
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.system.untrusted_files import stays_in
from envmgr.wording import did_you_mean, one_line, shortened

RECIPE_NAME = "recipe.yaml"
MOST_RECIPES = 10_000
_MOST_FOLDERS = 200_000  # that are looked into


@dataclass(frozen=True, slots=True)
class Listed:
    """The list of a catalog: `folders` of entries, sorted, all well-named; `faults` are lines `path: reason`."""

    folders: tuple[Path, ...]
    faults: tuple[str, ...]


def list_catalog(root: Path) -> Listed:
    """Return the entries' folders. Raise InputError `catalog-too-large`."""
    folders: list[Path] = []
    faults: list[str] = []
    seen = 0
    for name in _folders_in(root):
        seen += 1
        if name.is_symlink() and not stays_in(Path(name.path), root):
            faults.append(_leads_out(Path(name.path)))
            continue
        for version in _folders_in(Path(name.path)):
            seen += 1
            folder = Path(version.path)
            if version.is_symlink() and not stays_in(folder, root):
                faults.append(_leads_out(folder))
            elif os.path.lexists(folder / RECIPE_NAME):
                told = [
                    f"{one_line(folder / RECIPE_NAME)}: bad name `{one_line(part)}`: {why}"
                    for part in (name.name, version.name)
                    if (why := fault_in_part(part))
                ]
                faults += told
                folders += [] if told else [folder]
            _require_end(root, len(folders), seen)
        _require_end(root, len(folders), seen)
    return Listed(tuple(sorted(folders)), tuple(faults))


def _require_end(root: Path, recipes: int, seen: int) -> None:
    if recipes > MOST_RECIPES or seen > _MOST_FOLDERS:
        raise InputError(
            "catalog-too-large",
            f"the catalog {root} has more than {MOST_RECIPES} recipes, or very many folders",
            hint="check some of its entries by their names, and take out what is no catalog",
        )


def _folders_in(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the folders in order; nothing if `folder` cannot be listed."""
    found: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if len(found) > _MOST_FOLDERS:
                break
            with suppress(OSError):  # a link to itself
                if entry.is_dir():
                    found.append(entry)
    return iter(sorted(found, key=lambda entry: entry.name))


def _leads_out(folder: Path) -> str:
    return f"{one_line(folder)}: is a link out of the catalog: put the folder itself there"


SOFTWARE_NAME = "software.yaml"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """The place of an entry's recipe. `shipped` catalogs are never written."""

    entry: Entry
    folder: Path
    shipped: bool

    @property
    def root(self) -> Path:
        """The catalog that it lies in."""
        return catalog_of(self.folder)

    @property
    def recipe_path(self) -> Path:
        return self.folder / RECIPE_NAME

    @property
    def software_path(self) -> Path:
        return self.folder.parent / SOFTWARE_NAME

    def recipe(self) -> Recipe:
        """Load the recipe. Raises InputError with each fault's place."""
        return load_recipe(self.recipe_path)

    def sound_recipe(self) -> tuple[Recipe | None, list[str], frozenset[str]]:
        """Return what `load_sound_recipe` does."""
        return load_sound_recipe(self.recipe_path)

    def software(self) -> Software:
        return load_software(self.software_path)

    def require_writable(self) -> None:
        """Raise EnvmgrError `catalog-read-only` for the shipped catalog, `not-writable` if permission is missing."""
        if self.shipped:
            raise EnvmgrError(
                "catalog-read-only",
                f"{self.entry} is in the catalog that ships with envmgr, which is never changed",
                context=str(self.folder),
                hint=f"`envmgr copy {self.entry}` takes it into your own catalog (`envmgr init` makes one)",
            )
        if not os.access(self.folder, os.W_OK):
            raise EnvmgrError("not-writable", f"cannot write {self.folder}", hint="run as the catalog's owner")


@dataclass(frozen=True, slots=True)
class Catalog:
    """All recipes of a site. Reads folders when asked, keeps nothing."""

    roots: tuple[Path, ...]
    shipped_root: Path

    def entries(self) -> list[CatalogEntry]:
        """Return every entry, with its winning folder, sorted by name and version as people expect."""
        found: dict[Entry, CatalogEntry] = {}
        for root in self.roots:
            for folder in list_catalog(root).folders:
                entry = Entry(folder.parent.name, folder.name)
                found.setdefault(entry, CatalogEntry(entry, folder, root == self.shipped_root))
        return sorted(found.values(), key=lambda e: (e.entry.name.lower(), sort_key(e.entry.version), e.entry.version))

    def look(self, entry: Entry) -> CatalogEntry | None:
        for root in self.roots:
            folder = root / entry.name / entry.version
            if os.path.lexists(folder / RECIPE_NAME):
                return CatalogEntry(entry, folder, root == self.shipped_root)
        return None

    def hidden(self, found: CatalogEntry) -> list[Path]:
        """Return the folders of other catalogs that have the entry too, without the shipped one: copies of that are made
        to be changed.
        """
        later = self.roots[self.roots.index(found.root) + 1 :] if found.root in self.roots else ()
        folders = [root / found.entry.name / found.entry.version for root in later if root != self.shipped_root]
        return [folder for folder in folders if os.path.lexists(folder / RECIPE_NAME)]

    def find(self, entry: Entry) -> CatalogEntry:
        """Return the entry's place. Raise InputError `unknown-entry` with the nearest names."""
        if found := self.look(entry):
            return found
        known = [str(e.entry) for e in self.entries()]
        close = nearest(str(entry), known)
        raise InputError(
            "unknown-entry",
            f"no catalog has {entry}",
            context=f"searched: {', '.join(str(r) for r in self.roots)}",
            hint=did_you_mean(close, "`envmgr list` shows what there is"),
        )

    def parse(self, text: str) -> Entry:
        """Parse `name/version` as typed; a bare name is an error that lists its versions."""
        if "/" not in text and not fault_in_part(text):
            versions = [str(e.entry) for e in self.entries() if e.entry.name == text]
            if versions:
                raise InputError(
                    "entry-syntax", f"`{text}` is a name; which version?", hint=f"there are {', '.join(versions)}"
                )
        return parse_entry(text)

    def with_dependencies(self, wanted: list[Entry]) -> list[CatalogEntry]:
        """Return the wanted entries and what their modules depend on, dependencies first, each once.

        Raises InputError `unknown-entry`, `dependency-cycle`.
        """
        order: dict[Entry, CatalogEntry] = {}
        for entry in wanted:
            if entry in order:
                continue
            way: dict[Entry, tuple[CatalogEntry, Iterator[Entry]]] = {entry: self._opened(entry)}
            while way:
                last, (found, waiting) = next(reversed(way.items()))
                following = next((each for each in waiting if each not in order), None)
                if following is None:
                    del way[last]
                    order[last] = found
                elif following in way:
                    circle = [str(each) for each in (*way, following)]
                    raise InputError(
                        "dependency-cycle", f"{following} depends on itself", context=" -> ".join(shortened(circle))
                    )
                else:
                    way[following] = self._opened(following)
        return list(order.values())

    def _opened(self, entry: Entry) -> tuple[CatalogEntry, Iterator[Entry]]:
        found = self.find(entry)
        return found, map(parse_entry, found.recipe().depends)

    def own_root(self) -> Path:
        """Return the first catalog that can be written; `copy` uses it. Raises EnvmgrError `no-catalog`."""
        for root in self.roots:
            if root != self.shipped_root and os.access(root, os.W_OK):
                return root
        raise EnvmgrError(
            "no-catalog",
            "the site has no catalog of its own that you can write",
            hint="`envmgr init` makes a site with one",
        )

    def name_faults(self) -> list[str]:
        """Return `path: reason` lines for folders that cannot be entries, and for names or versions that differ only by
        case.

        Raises InputError `catalog-too-large`.
        """
        faults = []
        folded: dict[str, set[str]] = defaultdict(set)
        for root in self.roots:
            if not root.is_dir():
                faults.append(f"{root}: the catalog's folder does not exist")
                continue
            listed = list_catalog(root)
            faults += shortened(listed.faults)
            if any(folder.parent.name == MODULE_NAME for folder in listed.folders):
                faults.append(
                    f"{one_line(root / MODULE_NAME)}: no entry can have that name: environments of users have it"
                )
            for folder in listed.folders:
                version, name = folder.name, folder.parent.name
                folded[name.lower()].add(name)
                folded[f"{name.lower()}/{version.lower()}"].add(f"{name}/{version}")
        alike = [f"{' and '.join(sorted(names))} differ only by case" for names in folded.values() if len(names) > 1]
        return [*faults, *shortened(alike)]


def closed_catalog(root: Path) -> EnvmgrError | None:
    """Return the error `user-cannot-read` if this process cannot enter the folder of a catalog, or one above it."""
    try:
        closed = stat.S_ISDIR(root.stat().st_mode) and not os.access(root, os.R_OK | os.X_OK)
    except OSError as error:
        closed = isinstance(error, PermissionError)
    if not closed:
        return None
    return EnvmgrError(
        "user-cannot-read",
        f"the catalog {root} is closed to you",
        hint="let the user of envmgr read it, or take it out of `catalogs` in site.yaml",
    )


def open_catalog(site: Site) -> Catalog:
    """Return the catalog of a site. Raise EnvmgrError `user-cannot-read`."""
    for root in site.catalogs:
        if closed := closed_catalog(root):
            raise closed
    return Catalog(site.catalogs, site.shipped_catalog)


MOST_BELOW = 300  # entries that one may depend on, directly or not


def find_circles(depends: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, str]]:
    """Return entry -> (the entry that depends on itself, the chain), for entries in a circle or leading into one."""
    found: dict[str, tuple[str, str]] = {}
    done: set[str] = set()
    for entry in depends:
        way = {entry: iter(depends[entry])} if entry not in done else {}
        while way:
            last = next(reversed(way))
            following = next(
                (each for each in way[last] if each in depends and (each not in done or each in found)), None
            )
            if following is None:
                del way[last]
                done.add(last)
                continue
            if following in way:
                circle = [*way][[*way].index(following) :]
                told = (following, " -> ".join(shortened([*circle, following])))
            elif following in found:
                told = found[following]
            else:
                way[following] = iter(depends[following])
                continue
            found |= dict.fromkeys(way, told)
            done.update(way)
            way = {}
    return found


def too_many_below(depends: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the entries that depend on more than `MOST_BELOW`."""
    return [entry for entry in depends if _has_many(entry, depends)]


def _has_many(entry: str, depends: Mapping[str, Iterable[str]]) -> bool:
    seen, waiting = {entry}, [entry]
    while waiting:
        for each in depends.get(waiting.pop(), ()):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
                if len(seen) > MOST_BELOW + 1:
                    return True
    return False
