"""What wheels promise to install, before any is unpacked: path -> sha256, and the paths that two of them claim.

Source: packaging.python.org, "Binary distribution format" and "Recording installed projects".
"""

from __future__ import annotations

import base64
import csv
import io
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# Folder of `<name>-<version>.data` -> where its files land. `purelib` and `platlib` are one folder.
_SCHEMES = {"scripts": "bin", "data": "", "headers": "include/site/python{minor}"}


class BadWheel(Exception):  # noqa: N818 - what is the matter
    """A wheel that is none, or says what it cannot."""


class Overlap(Exception):  # noqa: N818 - what is the matter
    """Two wheels have one path with different content. `details` has `path`, `first` and `second`."""

    def __init__(self, path: str, first: str, second: str) -> None:
        super().__init__(f"{path} is in {first} and in {second}, with different content")
        self.details = {"path": path, "first": first, "second": second}


@dataclass(frozen=True, slots=True)
class Promise:
    """A file of a wheel. `sha256` is empty where RECORD has none; `made` for scripts, whose first line is written at installation."""

    path: str
    sha256: str
    made: bool


@dataclass(frozen=True, slots=True)
class Promised:
    """Of all wheels: path in the install -> sha256, of what is installed as it is; every folder that gets something; and every path."""

    files: dict[str, str]
    folders: tuple[str, ...]
    paths: frozenset[str]


def promised(wheels: Iterable[Path], minor: str) -> Promised:
    """What the wheels will install.

    Raises:
        Overlap; BadWheel.
    """
    owners: dict[str, tuple[str, Promise]] = {}
    for wheel in wheels:
        for each in _read(wheel, minor):
            name, other = owners.setdefault(each.path, (wheel.name, each))
            if name != wheel.name and (other.sha256 != each.sha256 or not each.sha256):
                raise Overlap(each.path, name, wheel.name)
    files = {path: each.sha256 for path, (_, each) in owners.items() if each.sha256 and not each.made}
    return Promised(files, tuple(sorted({path.rpartition("/")[0] for path in owners})), frozenset(owners))


@contextmanager
def reading(wheel: Path) -> Iterator[None]:
    """Raises BadWheel for whatever the libraries that read wheels raise of one that is none: they have no error of their own for it."""
    try:
        yield
    except (OSError, MemoryError, BadWheel):
        raise
    except Exception as error:  # noqa: BLE001 - KeyError, AssertionError, OverflowError, csv.Error, …
        raise BadWheel(f"{wheel.name} cannot be read: {type(error).__name__}: {error}".removesuffix(": ")) from None


def _read(wheel: Path, minor: str) -> Iterator[Promise]:
    with reading(wheel):
        with zipfile.ZipFile(wheel) as archive:
            records = [n for n in archive.namelist() if n.endswith(".dist-info/RECORD") and n.count("/") == 1]
            if len(records) != 1:
                raise BadWheel(f"{wheel.name} has {len(records)} files .dist-info/RECORD")
            rows = [*csv.reader(io.StringIO(archive.read(records[0]).decode()))]
            scripts = records[0].replace("RECORD", "entry_points.txt")
            points = archive.read(scripts).decode() if scripts in archive.namelist() else ""
        started = _entry_points(points, wheel)
    for row in rows:
        if len(row) != 3 or row[0] == records[0] or row[0].endswith((".pyc", "/RECORD.jws", "/RECORD.p7s")):
            continue
        if row[0].startswith("/") or ".." in row[0].split("/"):
            raise BadWheel(f"{wheel.name} has a path outside of its install: {row[0]}")
        with reading(wheel):
            digest = _hex(row[1])
        yield Promise(_place(row[0], minor), digest, ".data/scripts/" in row[0])
    yield from (Promise(f"bin/{name}", f"starts {function}", True) for name, function in started)


def _entry_points(text: str, wheel: Path) -> list[tuple[str, str]]:
    """Script -> what it starts."""
    from installer.utils import parse_entrypoints

    try:
        return [(name, f"{module}:{attribute}") for name, module, attribute, _ in parse_entrypoints(text)]
    except AssertionError:
        raise BadWheel(f"{wheel.name} has an entry_points.txt with a script that names no function") from None


def _place(path: str, minor: str) -> str:
    packages = f"lib/python{minor}/site-packages"
    head, _, rest = path.partition("/")
    if not head.endswith(".data") or not rest:
        return f"{packages}/{path}"
    scheme, _, inner = rest.partition("/")
    if scheme in ("purelib", "platlib"):
        return f"{packages}/{inner}"
    if scheme == "headers":
        return f"{_SCHEMES[scheme].format(minor=minor)}/{head.partition('-')[0]}/{inner}"
    folder = _SCHEMES.get(scheme)
    if folder is None:
        raise BadWheel(f"{path}: there is no scheme `{scheme}`")
    return f"{folder}/{inner}" if folder else inner


def _hex(text: str) -> str:
    """sha256 of a row's `sha256=<urlsafe base64 without padding>`, as hex digits."""
    kind, _, value = text.partition("=")
    if kind != "sha256" or not value:
        return ""
    return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
