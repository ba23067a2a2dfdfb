"""The site's settings of wheels, under `backends.wheels`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import field_validator

from envmgr.catalog.settings import SiteFact, backend_settings, mirror_faults
from envmgr.catalog.site import Site
from envmgr.catalog.site_file import Mirrors
from envmgr.store.prefix import Prefix
from envmgr.system.models import FrozenModel, refuse


class Index(FrozenModel):
    """A Python package index: the URL of its simple API, and mirrors (URL, or folder of wheels) to try first, in order.

    Only the public one may have no URL: uv is asked for it. Source: packaging.python.org, "Simple repository API".
    """

    url: str = ""
    mirrors: Mirrors = ()

    @field_validator("url")
    @classmethod
    def _url(cls, value: str) -> str:
        if not re.fullmatch(r"(https?|file)://[^\s@]+", value):
            raise ValueError("must be an http(s):// or file:// URL, without a user's name and password")
        return value.rstrip("/")


PUBLIC = "pypi"
_PUBLIC_PATH = re.compile(r"/packages/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{60}/[^/]+$")


class WheelsSettings(FrozenModel):
    """The section `backends.wheels` of the site."""

    indexes: dict[str, Index] = {}

    @field_validator("indexes")
    @classmethod
    def _have_urls(cls, value: dict[str, Index]) -> dict[str, Index]:
        refuse(f"{name}: it has no `url`" for name, index in value.items() if not index.url and name != PUBLIC)
        return value


def wheel_cache(prefix: Prefix) -> Path:
    """Return the folder of wheels and sources as they were downloaded: `<sha256>/<file name>`."""
    return prefix.cache / "wheels"


def indexes_of(site: Site) -> dict[str, Index]:
    """Map names to indexes, with every site's public one; their mirrors are URLs."""
    own = backend_settings(site, "wheels", WheelsSettings).indexes
    found = {n: i.model_copy(update={"mirrors": site.absolute_mirrors(i.mirrors)}) for n, i in own.items()}
    return {PUBLIC: Index(), **found}


def explain_indexes(site: Site) -> Iterator[SiteFact]:
    """Yield the folders of indexes that cannot be read, for `check`."""
    for name, index in sorted(indexes_of(site).items()):
        yield from mirror_faults(f"backends.wheels.indexes.{name}", [*filter(None, [index.url]), *index.mirrors])


def index_for(url: str, site: Site) -> str:
    """Return the site's index of a file that another tool's lock names by its URL; empty if it is of none."""
    if _PUBLIC_PATH.search(urlsplit(url).path):  # mirrors keep it
        return PUBLIC
    return next(
        (
            name
            for name, index in indexes_of(site).items()
            for place in (index.url, *index.mirrors)
            if place and url.startswith(f"{_home_of(place)}/") and ".." not in urlsplit(url).path.split("/")
        ),
        "",
    )


def _home_of(place: str) -> str:
    """Return `https://host:1` of `https://host:1/simple`; for a folder, the one that it lies in."""
    parts = urlsplit(place)
    return place.rpartition("/")[0] if parts.scheme == "file" else f"{parts.scheme}://{parts.netloc}"
