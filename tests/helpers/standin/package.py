"""Write one `.conda` file, or a `.tar.bz2`: the same entries always give the same bytes."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import posixpath
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

# What an installer replaces by the prefix. It is as long as conda-build makes it (255 bytes), because an installer pads
# a shorter prefix inside binary files and refuses a longer one: only a full-length placeholder tests that.
PLACEHOLDER = ("/opt/standin" + "_placehold" * 25)[:255]

# One instant for everything inside an archive: 2024-01-01 00:00:00 UTC, in seconds.
EPOCH = 1_704_067_200

Record = dict[str, Any]
Compress = Callable[[bytes], bytes]


class StandinError(Exception):
    """The stand-in channel cannot be made here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or symbolic link; `path` is relative to the prefix, or to `site-packages/` in a noarch python package."""

    path: str
    data: bytes = b""
    link: str | None = None
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Package:
    """What goes into one package file. `noarch` is None, "generic" or "python"; `timestamp` is in seconds.

    Without a `build_number` it is the one at the end of `build`.
    """

    name: str
    version: str
    build: str
    entries: tuple[Entry, ...] = ()
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    noarch: str | None = None
    entry_points: tuple[str, ...] = ()
    license: str = "BSD-3-Clause"
    timestamp: int = EPOCH
    summary: str = field(default="stand-in package, for tests only")
    build_number: int | None = None
    suffix: Literal[".conda", ".tar.bz2"] = ".conda"

    @property
    def subdir(self) -> str:
        """The channel folder the package belongs in."""
        return "noarch" if self.noarch else "linux-64"

    @property
    def file_name(self) -> str:
        """`name-version-build.conda`."""
        return f"{self.name}-{self.version}-{self.build}{self.suffix}"

    def index(self) -> Record:
        """The fields of `info/index.json`, which are also those of the repodata record without hashes and size."""
        _, _, last = self.build.rpartition("_")
        number = (int(last) if last.isdigit() else 0) if self.build_number is None else self.build_number
        index: Record = {
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "build_number": number,
            "depends": sorted(self.depends),
            "constrains": sorted(self.constrains),
            "license": self.license,
            "subdir": self.subdir,
            "timestamp": self.timestamp * 1000,
        }
        if self.noarch:
            return index | {"noarch": self.noarch}
        return index | {"arch": "x86_64", "platform": "linux"}


def write_package(package: Package, channel: Path, compress: Compress) -> Record:
    """Write `channel/<subdir>/<file name>` and return its repodata record.

    `compress` makes one zstd frame of a byte string; a `.tar.bz2` is bzip2's.

    Raises:
        StandinError: two entries of the package have one path.
    Source: conda documentation, "Conda packages", the `.conda` format, version 2.
    """
    entries = sorted(package.entries, key=lambda entry: entry.path)
    if len({entry.path for entry in entries}) != len(entries):
        raise StandinError(f"{package.file_name} has the same path twice")
    stem = package.file_name.removesuffix(package.suffix)
    if package.suffix == ".conda":
        members = {
            "metadata.json": _json({"conda_pkg_format_version": 2}),
            f"pkg-{stem}.tar.zst": compress(_tar(entries)),
            f"info-{stem}.tar.zst": compress(_tar(_info(package, entries))),
        }
        data = _zip(members)
    else:
        data = bz2.compress(_tar([*_info(package, entries), *entries]))
    path = channel / package.subdir / package.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return package.index() | {
        "md5": hashlib.md5(data, usedforsecurity=False).hexdigest(),
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
    }


def _info(package: Package, entries: list[Entry]) -> list[Entry]:
    files: dict[str, Record] = {
        "info/about.json": {"summary": package.summary, "license": package.license},
        "info/index.json": package.index(),
        "info/paths.json": {"paths": _paths(entries), "paths_version": 1},
    }
    if package.noarch:
        link: Record = {"type": package.noarch}
        if package.noarch == "python":
            link["entry_points"] = list(package.entry_points)
        files["info/link.json"] = {"noarch": link, "package_metadata_version": 1}
    return [Entry(path, _json(content)) for path, content in sorted(files.items())]


def _paths(entries: list[Entry]) -> list[Record]:
    content = {entry.path: entry.data for entry in entries}
    rows = []
    for entry in entries:
        data = entry.data
        if entry.link is not None:
            # conda-build records the hash of what a link leads to.
            data = content.get(posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), entry.link)), b"")
        row: Record = {
            "_path": entry.path,
            "path_type": "hardlink" if entry.link is None else "softlink",
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_in_bytes": len(data),
        }
        if entry.link is None and PLACEHOLDER.encode() in data:
            row |= {"prefix_placeholder": PLACEHOLDER, "file_mode": "binary" if b"\0" in data else "text"}
        rows.append(row)
    return rows


def _json(content: Record) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"


def _tar(entries: Iterable[Entry]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for entry in entries:
            member = tarfile.TarInfo(entry.path)
            member.mtime = EPOCH
            member.mode = 0o755 if entry.executable else 0o644
            if entry.link is None:
                member.size = len(entry.data)
                tar.addfile(member, io.BytesIO(entry.data))
            else:
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, entry.link, 0o777
                tar.addfile(member)
    return out.getvalue()


def _zip(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system = 3  # unix, whatever the host: it is part of the bytes
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    return out.getvalue()
