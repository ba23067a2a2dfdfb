"""METADATA of packages: read with `packaging` and written again.

Source: packaging.python.org, "Core metadata specifications".
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from email.parser import HeaderParser
from pathlib import Path

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from envmgr.system.models import FrozenModel
from envmgr.wheels.requirements import checked_all
from envmgr.wording import one_line

_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
_LARGEST = 1 << 22  # bytes


class Metadata(FrozenModel):
    """A package's name and version, and what it needs."""

    name: str
    version: str
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text of a file METADATA."""
        rows = [f"Provides-Extra: {extra}" for extra in self.extras]
        rows += [f"Requires-Dist: {row}" for row in self.requires]
        return "\n".join(["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}", *rows, ""])


def normal_name(text: str) -> NormalizedName:
    """Return the normalised name of an extra, or of a package. Raise ValueError."""
    if not re.fullmatch(_NAME, text):
        raise ValueError(f"`{one_line(text)}` is no name")
    return canonicalize_name(text)


def read_metadata(text: str) -> Metadata:
    """Read a METADATA or a PKG-INFO. Raise ValueError for what packaging does not read, or would not write so."""
    head = HeaderParser().parsestr(text)
    try:
        version = str(Version(str(head["Version"])))
    except InvalidVersion:
        raise ValueError(f"`{one_line(head['Version'])}` is no version") from None
    return Metadata(
        name=normal_name(str(head["Name"])),
        version=version,
        requires=checked_all(head.get_all("Requires-Dist") or ()),
        extras=tuple(dict.fromkeys(normal_name(str(each)) for each in head.get_all("Provides-Extra") or ())),
    )


def metadata_in(wheel: Path) -> Metadata:
    """Return the METADATA of a file. Raise OSError, zipfile.BadZipFile; ValueError as `read_metadata` does."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            name = next((n for n in archive.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1), "")
            text = archive.open(name).read(_LARGEST + 1) if name else b""
    # What zipfile says of damaged bytes, of a password, of an unknown method, and of a size that no memory has.
    except (zlib.error, EOFError, struct.error, RuntimeError, MemoryError) as error:
        raise zipfile.BadZipFile(str(error) or type(error).__name__) from None
    if len(text) > _LARGEST:
        raise ValueError(f"{name} is larger than {_LARGEST} bytes")
    return read_metadata(text.decode(errors="replace"))
