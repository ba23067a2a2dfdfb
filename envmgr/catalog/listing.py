"""The content of a catalog's folder: recipes, and folders that cannot be entries. No link that leads out of it is
followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envmgr.catalog.names import fault_in_part
from envmgr.errors import InputError
from envmgr.system.untrusted_files import stays_in
from envmgr.wording import one_line

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
