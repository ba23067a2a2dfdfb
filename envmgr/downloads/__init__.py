"""Files by their sha256: into a cache, from the first place that has them. Knows no backend.

A cache is `<cache>/<sha256>/<file name>`. Wherever a file comes from, it gets in only with that sha256, and it is
hashed again at every use.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from envmgr.errors import InputError
from envmgr.system.files import sha256_file

Given = Mapping[str, Path]  # sha256 -> a file that the administrator named; its own name does not matter


@dataclass(frozen=True, slots=True)
class Download:
    """One file to have. `places` are http(s):// and file:// URLs in order of trial; `size` is bytes if known.

    If only its place says its name, `fits` tells whether a name is one that it may have; `name` is then for people.
    """

    name: str
    sha256: str
    places: tuple[str, ...]
    size: int | None = None
    fits: Callable[[str], bool] | None = None

    def path(self, cache: Path) -> Path:
        return cache / self.sha256 / self.name

    def known(self, cache: Path, given: Given) -> Download:
        """Return it with name and size of its file in the cache, or of the given one, if it has no name yet."""
        for path in (cached_file(cache, self.sha256), given.get(self.sha256)):
            if self.fits is not None and path is not None and self.fits(path.name):
                return replace(self, name=path.name, size=path.stat().st_size, fits=None)
        return self


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A fetched file. `missing` only in a dry run; `size` is bytes, None for a missing file of unknown size.

    `places` are the places where a missing file will be looked for, in order.
    """

    name: str
    sha256: str
    state: Literal["present", "fetched", "missing"]
    size: int | None
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """The files in a cache after a fetch, in the order they were asked for, each once.

    `paths` maps a sha256 to the place of a file that is there.
    """

    files: tuple[FetchedFile, ...]
    paths: Mapping[str, Path] = field(default_factory=dict)

    @property
    def present(self) -> int:
        """Files that were there before, with the right sha256."""
        return sum(f.state == "present" for f in self.files)

    @property
    def fetched(self) -> int:
        return sum(f.state == "fetched" for f in self.files)

    @property
    def missing(self) -> tuple[FetchedFile, ...]:
        return tuple(f for f in self.files if f.state == "missing")

    @property
    def bytes(self) -> int:
        """Bytes that were brought into the cache by this fetch."""
        return sum(f.size or 0 for f in self.files if f.state == "fetched")


def joined(fetched: Iterable[Fetched]) -> Fetched:
    """Return all files, each once."""
    files, paths = dict[str, FetchedFile](), dict[str, Path]()
    for each in fetched:
        files |= {file.sha256: file for file in each.files if file.sha256 not in files}
        paths |= each.paths
    return Fetched(tuple(files.values()), paths)


def digest_of(path: Path) -> str:
    """Return the sha256 of a file in a cache. Raise InputError `file-unreadable` for one that was put there by hand."""
    try:
        return sha256_file(path)
    except PermissionError as error:
        raise unreadable(path, error) from None


def cached_file(cache: Path, sha256: str) -> Path | None:
    """Return the file of that sha256 in a cache, unread; None without one."""
    try:
        files = sorted(path for path in (cache / sha256).iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return None
    return files[0] if files else None


def read_given(path: Path) -> dict[str, Path]:
    """Return sha256 -> file, for a file that an administrator names, or for the files of a folder.

    The folder may be a cache, or hold caches, such as one that was brought from another machine, or an OCI layout. A file
    of these is listed by the sha256 that its folder's name claims, and not read here: a cache may be far larger than what is needed
    of it, and `bring` hashes what it copies. Other files are hashed.

    Raises:
        InputError: `file-missing`, `file-unreadable`.
    """
    found: dict[str, Path] = {}
    try:
        if path.is_dir():
            # `bring` makes file:// URLs of them, which need absolute paths.
            found = {sha256: file.absolute() for sha256, file in _in_caches(path)}
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.is_file():
                with file.open("rb") as opened:
                    found[hashlib.file_digest(opened, "sha256").hexdigest()] = file.absolute()
            elif file == path:  # not there; or a pipe, which would be waited for
                raise InputError("file-missing", f"{path} is no file and no folder")
    except OSError as error:
        raise unreadable(path, error) from None
    return found


def _in_caches(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield sha256 and file of the caches that a folder is or holds, or that are in its folder `cache`."""
    for cache in (folder, *_folders_in(folder), *_folders_in(folder / "cache")):
        for place in _folders_in(cache):
            if re.fullmatch(r"[0-9a-f]{64}", place.name):
                for file in sorted(place.iterdir()):
                    if file.is_file() and not file.name.startswith("."):  # a part that a killed fetch left
                        yield place.name, file
    blobs = folder / "blobs/sha256"  # of an OCI layout
    for file in sorted(blobs.iterdir()) if blobs.is_dir() else ():
        if re.fullmatch(r"[0-9a-f]{64}", file.name):
            yield file.name, file


def _folders_in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):  # a folder of any kind
        return []


def unreadable(path: Path, error: OSError) -> InputError:
    """Return the error for a file that was put there by hand, with the wrong permissions."""
    return InputError(
        "file-unreadable",
        f"cannot read {error.filename or path}",
        context=str(error.strerror),
        hint="let the site's build user read it",
    )
