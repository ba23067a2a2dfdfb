"""Wheels of packages that this Python has, made of what is installed: the very files, without an index."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers.wheelhouse import DATE

_OF_AN_INSTALL = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")

PLATFORM = f"{platform.machine()}-manylinux_{(os.confstr('CS_GNU_LIBC_VERSION') or '').split()[-1].replace('.', '_')}"
"""What a recipe of them says: pip chose them for this host."""


def real_wheels(name: str, folder: Path) -> list[Path]:
    """The wheel of a package, and those of all that it needs here."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_wheel(metadata.distribution(each), folder) for each in sorted(_closure(name))]


def _closure(name: str) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        if (each := canonicalize_name(waiting.pop())) in found:
            continue
        found.add(each)
        wanted = map(Requirement, metadata.requires(each) or ())
        waiting += [row.name for row in wanted if row.marker is None or row.marker.evaluate({"extra": ""})]
    return found


def _wheel(dist: metadata.Distribution, folder: Path) -> Path:
    stem = f"{canonicalize_name(dist.name).replace('-', '_')}-{dist.version}"
    tags = [
        line.split(": ")[1].split("-") for line in (dist.read_text("WHEEL") or "").splitlines() if line[:4] == "Tag:"
    ]
    tag = "-".join(".".join(sorted(set(column))) for column in zip(*tags, strict=True))
    place = folder / f"{stem}-{tag}.whl"
    record = []
    with zipfile.ZipFile(place, "w") as archive:
        for path, content in _files(dist):
            archive.writestr(zipfile.ZipInfo(path, DATE), content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}\n")
        (info,) = {path.parts[0] for path in dist.files or () if path.parts[0].endswith(".dist-info")}
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD", DATE), f"{''.join(record)}{info}/RECORD,,\n")
    return place


def _files(dist: metadata.Distribution) -> Iterator[tuple[str, bytes]]:
    for path in dist.files or ():
        if path.parts[0] != ".." and path.name not in _OF_AN_INSTALL and path.suffix != ".pyc":
            yield str(path), Path(str(path.locate())).read_bytes()
