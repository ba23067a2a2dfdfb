"""The site's settings for conda, under `backends.conda`, and the folder of downloaded packages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import Field, field_validator

from envmgr.catalog.settings import SiteFact, backend_settings, mirrors_fact
from envmgr.catalog.site import Site
from envmgr.catalog.site_file import Mirrors
from envmgr.store.prefix import Prefix
from envmgr.system.models import FrozenModel
from envmgr.wording import masked


class Channel(FrozenModel):
    """A conda channel: its canonical URL, which locks record, and mirrors (URL or folder), which are tried first, in
    order.

    A folder that holds only `repodata.json` is a snapshot: it is used for locking, and downloads use the next place.
    `note` describes a snapshot; it is written into locks made from it.
    """

    url: str
    mirrors: Mirrors = ()
    note: str = ""

    @field_validator("url")
    @classmethod
    def _url(cls, value: str) -> str:
        if not re.fullmatch(r"(https?|file)://[^\s]+", value):
            raise ValueError("must be an http(s):// or file:// URL")
        if masked(value) != value:
            raise ValueError(
                "must be without a name, a password or a token, for locks record it: mirrors may have them"
            )
        return value.rstrip("/")


DEFAULT_CHANNELS: Mapping[str, Channel] = {
    name: Channel(url=f"https://conda.anaconda.org/{name}") for name in ("conda-forge", "nvidia", "pytorch")
}


class CondaSettings(FrozenModel):
    """The section `backends.conda` of the site."""

    channels: dict[str, Channel] = {}
    program: Path | None = Field(default=None, description="conda, mamba or micromamba, for --solver conda-lock")


def package_cache(prefix: Prefix) -> Path:
    """Return the folder of downloaded packages: `<sha256>/<file name>`."""
    return prefix.cache / "conda"


def channels_of(site: Site) -> dict[str, Channel]:
    """Return the channels by name, including the default ones; mirrors are URLs."""
    own = backend_settings(site, "conda", CondaSettings).channels
    found = {n: c.model_copy(update={"mirrors": site.absolute_mirrors(c.mirrors)}) for n, c in own.items()}
    return {**DEFAULT_CHANNELS, **found}


def places_of(names: Iterable[str], site: Site) -> set[str]:
    """Return the places from which packages of these channels may come, as locks write them.

    These are their URLs here, their default URLs, and their mirrors.
    """
    known = channels_of(site)
    found: set[str] = set()
    for name in names:
        channels = [each for each in (known.get(name), DEFAULT_CHANNELS.get(name)) if each is not None]
        found |= {place.rstrip("/") for each in channels for place in (each.url, *each.mirrors)}
        if not channels:
            found.add(name.rstrip("/"))
    return found


def program_of(site: Site) -> Path | None:
    program = backend_settings(site, "conda", CondaSettings).program
    return None if program is None else site.absolute(program)


def explain_settings(site: Site) -> Iterator[SiteFact]:
    for name, channel in sorted(channels_of(site).items()):
        yield mirrors_fact(f"backends.conda.channels.{name}", [channel.url], channel.mirrors)
