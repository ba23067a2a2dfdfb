"""The Python that an install stands on: an entry of the catalog, or the operating system's own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from envmgr.backends import LoadedEntry, get_backend
from envmgr.backends.wheels.input import SYSTEM
from envmgr.catalog.entries import open_catalog
from envmgr.catalog.names import Entry, parse_entry
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError

SYSTEM_PYTHONS = Path("/usr/bin")
LOST = (
    "it stands on the operating system's Python: an update of the system changes it under the install, every node must have it, "
    "and `python -m venv --system-site-packages` on top does not see its packages; `python: python/{version}` loses none of that"
)


@dataclass(frozen=True, slots=True)
class Base:
    """`version` is full (3.11.7) for an entry, of the system's the minor one (3.11); `entry` is None for the system's."""

    version: str
    entry: LoadedEntry | None

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def name(self) -> str:
        return SYSTEM if self.entry is None else str(self.entry.lock.entry)


def load_base(text: str, of: Entry, site: Site) -> Base:
    """Raises what the entry raises, with whose base it is; EnvmgrError `base-without-python`."""
    if text.partition("/")[0] == SYSTEM:
        return Base(text.partition("/")[2] or _system_version(), None)
    entry = parse_entry(text)
    try:
        found = open_catalog(site).find(entry)
        recipe = found.recipe()
        lock = get_backend(recipe.backend).load_lock(entry, recipe, found.folder, site)
    except EnvmgrError as error:
        error.context = (*error.context, f"{of} stands on it: `python: {text}` in its recipe")
        raise
    if lock.python_version is None or not re.match(r"3\.\d+", lock.python_version):
        raise EnvmgrError(
            "base-without-python",
            f"{of} cannot stand on {entry}",
            context="its lock names no Python of its own",
            hint="`python:` names an entry that is a Python (python/3.11), or a conda environment with one",
        )
    return Base(lock.python_version, LoadedEntry(recipe, found.folder, lock))


def _system_version() -> str:
    """`3.11`: what the operating system calls `python3` is a link to that of a minor version."""
    name = (SYSTEM_PYTHONS / "python3").resolve().name.removeprefix("python")
    if not re.fullmatch(r"3\.[0-9]+", name):
        raise EnvmgrError(
            "base-without-python",
            f"{SYSTEM_PYTHONS}/python3 is no link to a Python of a minor version",
            hint="name one, as `python: system/3.11`, or an entry, as `python: python/3.11`",
        )
    return name
