"""METADATA of packages: read with `packaging` and written again; from wheels or from their index.

Source: packaging.python.org, "Core metadata specifications"; PEP 658, PEP 714 (`<url>.metadata`).
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.parser import HeaderParser
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from envmgr.downloads.ranges import RemoteFile
from envmgr.downloads.web import read_page
from envmgr.system.models import FrozenModel
from envmgr.system.run import Runner
from envmgr.wheels.requirements import checked_all
from envmgr.wording import one_line

_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
_AT_ONCE = 8
_LARGEST = 1 << 22  # bytes
_MOST_OF_WHEEL = 1 << 23  # bytes that are read of a wheel on a server; its directory has 2 MB for 20,000 files
_PIECE = 1 << 14


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
    return read_metadata(_from_wheel(wheel))


def _from_wheel(file: Path | IO[bytes]) -> str:
    try:
        with zipfile.ZipFile(file) as wheel:
            name = next((n for n in wheel.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1), "")
            if not name:
                return ""
            with wheel.open(name) as member:
                text = member.read(_LARGEST + 1)
    # What zipfile says of damaged bytes, of a password, of an unknown method, and of a size that no memory has.
    except (zlib.error, EOFError, struct.error, RuntimeError, MemoryError) as error:
        raise zipfile.BadZipFile(str(error) or type(error).__name__) from None
    if len(text) > _LARGEST:
        raise ValueError(f"{name} is larger than {_LARGEST} bytes")
    return text.decode(errors="replace")


def requires_at(urls: Mapping[str, str], runner: Runner) -> dict[str, tuple[str, ...]]:
    """Map packages to the rows of Requires-Dist of their wheel at the URL, if its server gives them.

    They are for the sidecar, and a pre-release that one of them asks for is asked for. A file in a folder has its own
    METADATA.
    """

    def one(item: tuple[str, str]) -> tuple[str, tuple[str, ...] | None]:
        runner.raise_if_cancelled()
        return item[0], _requires_at(item[1])

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {name: rows for name, rows in pool.map(one, urls.items()) if rows is not None}


def _requires_at(url: str) -> tuple[str, ...] | None:
    try:
        if url.startswith("file://"):
            text = _from_wheel(Path(unquote(urlsplit(url).path)))
        elif url.startswith(("http://", "https://")):
            text = _at(url)
        else:
            return None
        return checked_all(HeaderParser().parsestr(text).get_all("Requires-Dist") or ())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def _at(url: str) -> str:
    """Return the METADATA that an index has beside a wheel, or else the wheel's own, of which only parts are read."""
    with suppress(HTTPError):
        return read_page(f"{url}.metadata", most=_LARGEST).content.decode(errors="replace")
    return _from_wheel(io.BufferedReader(RemoteFile(url, most=_MOST_OF_WHEEL), _PIECE))
