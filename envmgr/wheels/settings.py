"""What the site says of wheels, under `backends.wheels`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import field_validator

from envmgr.catalog.locks import foreign_lock
from envmgr.catalog.settings import SiteFact, backend_settings, mirrors_fact
from envmgr.catalog.site import Site
from envmgr.catalog.site_file import Mirrors
from envmgr.system.models import FrozenModel
from envmgr.wheels.lock import LockedFile, LockedSdist


class Index(FrozenModel):
    """A Python package index: the URL of its simple API, and mirrors (URL, or folder of wheels) that are tried first, in order.

    Source: packaging.python.org, "Simple repository API".
    """

    url: str
    mirrors: Mirrors = ()

    @field_validator("url")
    @classmethod
    def _url(cls, value: str) -> str:
        if not re.fullmatch(r"(https?|file)://[^\s@]+", value):
            raise ValueError("must be an http(s):// or file:// URL, without a user's name and password")
        return value.rstrip("/")


PUBLIC = "pypi"
PUBLIC_FILES = "https://files.pythonhosted.org"
_PUBLIC_PATH = re.compile(r"/packages/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{60}/[^/]+$")
_OF_INDEX = re.compile(r"index:(?P<index>[^/]+)/(?P<file>[^/]+)")
DEFAULT_INDEXES: Mapping[str, Index] = {PUBLIC: Index(url="https://pypi.org/simple")}


class WheelsSettings(FrozenModel):
    """`backends.wheels` of the site."""

    indexes: dict[str, Index] = {}


def indexes_of(site: Site) -> dict[str, Index]:
    """The indexes by name, the public one of every site among them; mirrors are URLs."""
    own = backend_settings(site, "wheels", WheelsSettings).indexes
    found = {n: i.model_copy(update={"mirrors": site.absolute_mirrors(i.mirrors)}) for n, i in own.items()}
    return {**DEFAULT_INDEXES, **found}


def explain_settings(site: Site) -> Iterator[SiteFact]:
    for name, index in sorted(indexes_of(site).items()):
        yield mirrors_fact(f"backends.wheels.indexes.{name}", [index.url], index.mirrors)


def require_own_wheels(wheels: Iterable[LockedFile], names: Collection[str], site: Site, lock: Path) -> None:
    """Each from one of these indexes, or from a URL on the host of one or of its mirrors; of a folder, beside it. InputError `lock-foreign`."""
    known = indexes_of(site)
    places = {url.rstrip("/") for name in names if name in known for url in (known[name].url, *known[name].mirrors)}
    homes = {_home(place) for place in places}
    for each in wheels:
        url = "" if isinstance(each, LockedSdist) else each.url or ""
        at_home = any(url.startswith(f"{home}/") for home in homes) and ".." not in urlsplit(url).path.split("/")
        if each.index not in names and (each.index or not at_home):
            raise foreign_lock(lock, each.name, f"index {each.index}" if each.index else url, {*names, *places})


def _home(place: str) -> str:
    """`https://host:1` of `https://host:1/simple`; of a folder, the one that it lies in."""
    parts = urlsplit(place)
    return place.rpartition("/")[0] if parts.scheme == "file" else f"{parts.scheme}://{parts.netloc}"


def locked_url(index: str, url: str, file: str) -> str:
    """What a lock whose format wants a URL says of a file, wherever its index was asked: no host of the site, and no mirror's.

    Mirrors of the public index keep the path, which is the file's BLAKE2 sum: it is the public file. Of other indexes,
    `index:NAME/FILE`.
    """
    path = _PUBLIC_PATH.search(urlsplit(url).path)
    return f"{PUBLIC_FILES}{path[0]}" if index == PUBLIC and path else f"index:{index}/{file}"


def without_host(url: str) -> str:
    """A `locked_url` of the public index as `index:pypi/packages/…`; others as they are. `with_host` turns it back."""
    path = url.removeprefix(f"{PUBLIC_FILES}/")
    return url if path == url else f"index:{PUBLIC}/{path}"


def with_host(text: str) -> str:
    path = text.removeprefix(f"index:{PUBLIC}/")
    return f"{PUBLIC_FILES}/{path}" if path != text and _PUBLIC_PATH.fullmatch(f"/{path}") else text


def index_of(url: str) -> str:
    """The index of a `locked_url`; empty for another URL, which is the file's own place."""
    if match := _OF_INDEX.fullmatch(url):
        return match["index"]
    return PUBLIC if url.startswith(f"{PUBLIC_FILES}/") else ""
