"""The Python below an install, from an entry of the catalog or the operating system, and the prefix made over it."""

from __future__ import annotations

import re
import shutil
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
    "it stands on the operating system's Python: an update of the system changes it under the install, every node must "
    "have it, and `python -m venv --system-site-packages` on top does not see its packages; `python: python/{version}` "
    "loses none of that"
)
_OWN = frozenset({"site-packages", "EXTERNALLY-MANAGED"})


class NoPython(Exception):  # noqa: N818 - the name of what is wrong
    """There is no Python of that version to build on."""


@dataclass(frozen=True, slots=True)
class Base:
    """The Python of an install. `version` is full (3.11.7) for an entry, and the minor one (3.11) for the system's.

    `entry` is None for the system's.
    """

    version: str
    entry: LoadedEntry | None

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def name(self) -> str:
        return SYSTEM if self.entry is None else str(self.entry.lock.entry)


def load_base(text: str, of: Entry, site: Site) -> Base:
    """Return the base that a recipe names by `text`.

    Raises:
        EnvmgrError: `base-without-python`, and as the entry's lock, with the name of the entry `of` that is built on
            it.
    """
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
    """Return `3.11`: the operating system's `python3` is a link to that of a minor version."""
    name = (SYSTEM_PYTHONS / "python3").resolve().name.removeprefix("python")
    if not re.fullmatch(r"3\.[0-9]+", name):
        raise EnvmgrError(
            "base-without-python",
            f"{SYSTEM_PYTHONS}/python3 is no link to a Python of a minor version",
            hint="name one, as `python: system/3.11`, or an entry, as `python: python/3.11`",
        )
    return name


def make_interpreter(staging: Path, base: Path, minor: str) -> None:
    """Make a real prefix of links in `staging`, over the Python `minor` (3.11) of the install at `base`.

    A virtual environment on top of an install sees its packages only if that is a real prefix (invariant 7).
    Source: CPython, Modules/getpath.py. Raise NoPython; OSError.
    """
    program = next((p for p in (base / "bin" / f"python{minor}", base / "bin" / "python3") if p.is_file()), None)
    library = base / "lib" / f"python{minor}"
    if program is None or not (library / "os.py").is_file():
        raise NoPython(f"{base} has no Python {minor}: neither bin/python{minor} nor lib/python{minor}/os.py")
    folder = _make_folders(staging, minor)
    own = staging / "bin" / f"python{minor}"
    shutil.copyfile(program, own)
    own.chmod(0o755)
    for path in sorted(library.iterdir()):
        if path.name not in _OWN:
            (folder / path.name).symlink_to(path)
    _link(staging / "include" / f"python{minor}", base / "include" / f"python{minor}")
    for shared in sorted((base / "lib").glob(f"libpython{minor}*.so*")):
        _link(staging / "lib" / shared.name, shared)


def make_environment(staging: Path, minor: str, programs: Path) -> None:
    """Make a virtual environment in `staging`, over `programs/python<minor>`. Raise NoPython; OSError."""
    program = programs / f"python{minor}"
    if not program.is_file():
        raise NoPython(f"this host has no {program}")
    _make_folders(staging, minor)
    (staging / "bin" / f"python{minor}").symlink_to(program)
    (staging / "pyvenv.cfg").write_text(
        f"home = {programs}\ninclude-system-site-packages = false\nversion = {minor}\n", encoding="utf-8"
    )


def _make_folders(staging: Path, minor: str) -> Path:
    """Make the folders, and the names of the program; return the library's folder."""
    (staging / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3"):
        (staging / "bin" / name).symlink_to(f"python{minor}")
    library = staging / "lib" / f"python{minor}"
    (library / "site-packages").mkdir(parents=True, exist_ok=True)
    return library


def _link(place: Path, target: Path) -> None:
    """Link to the base's; a folder that packages have put files into stays theirs."""
    if target.exists() and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
