"""The content of a wheel that was built from its source, by the names of its files: what it lacks of what its source
declares.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from envmgr.system.models import FrozenModel

_LIBRARY = re.compile(r"\.(so|pyd)$")


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


def installed_paths(files: Iterable[str]) -> Iterator[str]:
    """Yield the paths of a wheel's files in site-packages; its programs, data and metadata are not there."""
    for file in files:
        top = file.partition("/")[0]
        path = re.sub(r"^[^/]+\.data/(purelib|platlib)/", "", file)
        if not top.endswith(".dist-info") and not (top.endswith(".data") and path == file) and not path.endswith("/"):
            yield path
