"""Requires-Dist of wheels, as their index has it beside them: read for the sidecar, decides nothing.

Source: PEP 658, PEP 714 (`<url>.metadata`); of a file in a folder, its own METADATA.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from email.parser import HeaderParser
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit

from envmgr.downloads.web import read_page
from envmgr.system.run import Runner
from envmgr.wheels.foreign import Metadata, read_metadata
from envmgr.wheels.requirements import checked_all

_AT_ONCE = 8
_LARGEST = 1 << 22  # bytes


def requires_of(urls: Mapping[str, str], runner: Runner) -> dict[str, tuple[str, ...]]:
    """Package -> its rows, for those whose index tells them."""

    def one(item: tuple[str, str]) -> tuple[str, tuple[str, ...] | None]:
        runner.raise_if_cancelled()
        return item[0], _requires(item[1])

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {name: rows for name, rows in pool.map(one, urls.items()) if rows is not None}


def _requires(url: str) -> tuple[str, ...] | None:
    try:
        if url.startswith("file://"):
            text = _from_wheel(Path(unquote(urlsplit(url).path)))
        elif url.startswith(("http://", "https://")):
            text = read_page(f"{url}.metadata", most=_LARGEST).content.decode(errors="replace")
        else:
            return None
        return checked_all(HeaderParser().parsestr(text).get_all("Requires-Dist") or ())
    except (OSError, HTTPException, ValueError, KeyError, zipfile.BadZipFile):
        return None


def requires_in(wheel: Path) -> tuple[str, ...]:
    """Of a wheel that is a file. Raises as `metadata_in`."""
    return metadata_in(wheel).requires


def metadata_in(wheel: Path) -> Metadata:
    """The METADATA of a wheel that is a file. Raises OSError, zipfile.BadZipFile; ValueError as `read_metadata`."""
    return read_metadata(_from_wheel(wheel))


def _from_wheel(path: Path) -> str:
    with zipfile.ZipFile(path) as wheel:
        name = next((n for n in wheel.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1), "")
        if not name:
            return ""
        with wheel.open(name) as file:
            text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise ValueError(f"{name} of {path.name} is larger than {_LARGEST} bytes")
    return text.decode(errors="replace")
