"""The content of a wheel that was built from its source, by the names of its files: what it lacks of what its source
declares, and the modules that a test imports.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from envmgr.system.models import FrozenModel

_LIBRARY = re.compile(r"\.(so|pyd)$")
_MODULE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\.py|(\.[A-Za-z0-9_-]+)*\.so)")
_FOLDER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What sources put beside their package by mistake: no user imports these, and `setup` would begin a build.
_STRAY = frozenset(
    "bench benchmark benchmarks ci conftest doc docs example examples samples script scripts setup test testing tests".split()
)


class DeclaredExtension(FrozenModel):
    """An extension module that a source declares to setuptools.

    `compiled`: it names what it is compiled from. Otherwise another tool builds it, such as CMake, and the name may be
    a label only.
    """

    name: str
    compiled: bool


def missing_extensions(declared: Iterable[DeclaredExtension], files: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the extension modules that are not among the files of the wheel, sorted."""
    libraries = [path for path in installed_paths(files) if _LIBRARY.search(path)]
    stems = {str(PurePosixPath(path).parent / PurePosixPath(path).name.partition(".")[0]) for path in libraries}
    folders = {str(parent) for path in installed_paths(files) for parent in PurePosixPath(path).parents}
    wanted = {each.name: each.compiled for each in declared}
    lasts = Counter(name.rpartition(".")[2] for name in wanted)

    def is_there(name: str, *, compiled: bool) -> bool:
        above, _, last = name.rpartition(".")
        package = above.replace(".", "/") or "."
        if {f"{package}/{last}".removeprefix("./"), f"{package}/lib{last}".removeprefix("./")} & stems:
            return True
        # Another tool may put all that it builds into the package of that name, or, if it is no name, anywhere.
        inside = name.replace(".", "/")
        if not compiled and (inside in folders or package not in folders or package == "."):
            return any(path.startswith(f"{inside}/") or inside not in folders for path in libraries)
        # Some builds move what they compile into another folder; with one of two of a name, nobody knows which.
        return lasts[last] == 1 and any(stem.rpartition("/")[2] == last for stem in stems)

    return tuple(sorted(name for name, compiled in wanted.items() if not is_there(name, compiled=compiled)))


def top_modules(files: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the modules that a user of the wheel imports, packages first; and those at its top that nobody does.

    A folder without `__init__` is a namespace of several packages: its own modules count. Compiled and private modules
    come last, because many work only once their package is there.
    """
    paths = [*installed_paths(files)]
    found = dict.fromkeys(_modules_in("", paths))
    stray = {name for name in found if name in _STRAY} if len(found) > 1 else set()
    ordered = sorted(found.keys() - stray, key=lambda name: (_rank(name, paths), name))
    return tuple(ordered), tuple(sorted(stray))


def installed_paths(files: Iterable[str]) -> Iterator[str]:
    """Yield the paths of a wheel's files in site-packages; its programs, data and metadata are not there."""
    for file in files:
        top = file.partition("/")[0]
        path = re.sub(r"^[^/]+\.data/(purelib|platlib)/", "", file)
        if not top.endswith(".dist-info") and not (top.endswith(".data") and path == file) and not path.endswith("/"):
            yield path


def _modules_in(folder: str, paths: Sequence[str]) -> Iterator[str]:
    """Yield the modules and packages in a folder (empty, or with a slash at its end)."""
    heads = {path[len(folder) :].split("/")[0]: "/" in path[len(folder) :] for path in paths if path.startswith(folder)}
    for head, is_folder in sorted(heads.items()):
        if not is_folder:
            if (module := _MODULE.fullmatch(head)) and module[1] not in ("__init__", "__main__"):
                yield f"{folder.replace('/', '.')}{module[1]}"
        elif _FOLDER.fullmatch(head) and head != "__pycache__":
            if _is_package(f"{folder}{head}/", paths):
                yield f"{folder.replace('/', '.')}{head}"
            else:
                yield from _modules_in(f"{folder}{head}/", paths)


def _is_package(folder: str, paths: Collection[str]) -> bool:
    return any(path.startswith(f"{folder}__init__.") and "/" not in path[len(folder) :] for path in paths)


def _rank(name: str, paths: Collection[str]) -> tuple[bool, bool]:
    path = name.replace(".", "/")
    return name.rpartition(".")[2].startswith("_"), not _is_package(f"{path}/", paths) and f"{path}.py" not in paths
