"""The site's settings of wheels, under `backends.wheels`; and the URLs by which locks name an index instead of a
host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import field_validator

from envmgr.catalog.settings import SiteFact, backend_settings, mirror_faults
from envmgr.catalog.site import Site
from envmgr.catalog.site_file import Mirrors
from envmgr.store.prefix import Prefix
from envmgr.system.models import FrozenModel


class Index(FrozenModel):
    """A Python package index: the URL of its simple API, and mirrors (URL, or folder of wheels) to try first, in order.

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
    """The section `backends.wheels` of the site."""

    indexes: dict[str, Index] = {}


def wheel_cache(prefix: Prefix) -> Path:
    """Return the folder of wheels and sources as they were downloaded: `<sha256>/<file name>`."""
    return prefix.cache / "wheels"


def indexes_of(site: Site) -> dict[str, Index]:
    """Map names to indexes, with every site's public one; their mirrors are URLs."""
    own = backend_settings(site, "wheels", WheelsSettings).indexes
    found = {n: i.model_copy(update={"mirrors": site.absolute_mirrors(i.mirrors)}) for n, i in own.items()}
    return {**DEFAULT_INDEXES, **found}


def explain_indexes(site: Site) -> Iterator[SiteFact]:
    """Yield the folders of indexes that cannot be read, for `check`."""
    for name, index in sorted(indexes_of(site).items()):
        yield from mirror_faults(f"backends.wheels.indexes.{name}", [index.url, *index.mirrors])


def locked_url(index: str, url: str, file: str) -> str:
    """Return the URL of a file for a lock whose format wants one: it names no host of the site, and no mirror's.

    Mirrors of the public index keep the path, which is the file's BLAKE2 sum: it is the public file. For other indexes,
    `index:NAME/FILE`.
    """
    path = _PUBLIC_PATH.search(urlsplit(url).path)
    return f"{PUBLIC_FILES}{path[0]}" if index == PUBLIC and path else f"index:{index}/{file}"


def index_of(url: str) -> str:
    """Return the index of a `locked_url`; empty for another URL, which is the file's own place."""
    if match := _OF_INDEX.fullmatch(url):
        return match["index"]
    return PUBLIC if url.startswith(f"{PUBLIC_FILES}/") else ""


def index_for(url: str, site: Site) -> str:
    """Return the site's index of a file that another tool's lock names by its URL; empty if it is of none."""
    if _PUBLIC_PATH.search(urlsplit(url).path) or index_of(url):
        return index_of(url) or PUBLIC
    return next(
        (
            name
            for name, index in indexes_of(site).items()
            for place in (index.url, *index.mirrors)
            if url.startswith(f"{home_of(place)}/") and ".." not in urlsplit(url).path.split("/")
        ),
        "",
    )


def home_of(place: str) -> str:
    """Return `https://host:1` of `https://host:1/simple`; for a folder, the one that it lies in."""
    parts = urlsplit(place)
    return place.rpartition("/")[0] if parts.scheme == "file" else f"{parts.scheme}://{parts.netloc}"


def url_without_host(url: str) -> str:
    """Return a `locked_url` of the public index as `index:pypi/packages/…`, and others as they are."""
    path = url.removeprefix(f"{PUBLIC_FILES}/")
    return url if path == url else f"index:{PUBLIC}/{path}"


def url_with_host(text: str) -> str:
    """Return the `locked_url` that `url_without_host` made the text of."""
    path = text.removeprefix(f"index:{PUBLIC}/")
    return f"{PUBLIC_FILES}/{path}" if path != text and _PUBLIC_PATH.fullmatch(f"/{path}") else text
