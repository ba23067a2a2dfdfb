"""Files by their sha256: into a cache, from the first place that has them. Knows no backend.

A cache is `<cache>/<sha256>/<file name>`. Wherever a file comes from, it gets in only with that sha256, and it is
hashed again at every use.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envmgr.errors import InputError

Given = Mapping[str, Path]  # sha256 -> a file that the administrator named; its own name does not matter


@dataclass(frozen=True, slots=True)
class Download:
    """One file to have. `places` are http(s):// and file:// URLs in order of trial; `size` is bytes if known."""

    name: str
    sha256: str
    places: tuple[str, ...]
    size: int | None = None

    def path(self, cache: Path) -> Path:
        return cache / self.sha256 / self.name


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
    """The files in a cache after a fetch, in the order they were asked for, each once."""

    files: tuple[FetchedFile, ...]

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


def has(path: Path, sha256: str, *, mend: bool = True) -> bool:
    """Return whether a cache has the file, by its hash. A damaged one is removed (unless not to `mend`), never used.

    Raises:
        InputError: `file-unreadable` for a file that was put there by hand, with the wrong permissions.
    """
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == sha256:
                return True
    except PermissionError as error:
        raise _unreadable(path, error) from None
    if mend:
        path.unlink(missing_ok=True)
    return False


def read_given(path: Path) -> dict[str, Path]:
    """Return sha256 -> file, for a file that an administrator names, or for the files of a folder.

    The folder may be a cache, or hold caches, such as one that was brought from another machine.

    Raises:
        InputError: `file-missing`, `file-unreadable`.
    """
    found: dict[str, Path] = {}
    try:
        files = [*_files_in(path)] if path.is_dir() else [path]
        for file in files:
            if not file.is_file():  # not there; or a pipe, which would be waited for
                raise InputError("file-missing", f"{path} is no file and no folder")
            with file.open("rb") as opened:
                # `bring` makes a file:// URL of it, which needs an absolute path.
                found[hashlib.file_digest(opened, "sha256").hexdigest()] = file.absolute()
    except OSError as error:
        raise _unreadable(path, error) from None
    return found


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, and of caches that it is or holds; nothing of other folders in it."""
    for path in sorted(folder.iterdir()):
        if path.is_file():
            yield path
        elif path.is_dir():
            for place in [path] if _is_place(path) else _places_in(path):
                yield from sorted(file for file in place.iterdir() if file.is_file())


def _places_in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if _is_place(path))
    except PermissionError:  # a folder of any kind
        return []


def _is_place(path: Path) -> bool:
    """Return whether a cache keeps a file there: `<sha256>/<file name>`."""
    return re.fullmatch(r"[0-9a-f]{64}", path.name) is not None and path.is_dir()


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(
        "file-unreadable",
        f"cannot read {error.filename or path}",
        context=str(error.strerror),
        hint="let the site's build user read it",
    )
