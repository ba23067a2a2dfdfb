"""The input of a recipe for Spack, the settings of the site, and the part of the lock that is ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator

from envmgr.catalog.names import Entry
from envmgr.catalog.site import Site
from envmgr.catalog.site_file import is_plain_path
from envmgr.downloads.sources import SourceFile
from envmgr.store.prefix import Prefix
from envmgr.system.models import FrozenModel, refuse
from envmgr.system.spack_files import SpackLock

LOCK_NAME, SPACK_LOCK = "spack-lock.yml", "spack.lock"
# Words of a spec. A `/HASH` names an install of somebody's Spack, and is not here.
_SPEC = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@%^+~=:,-]*( [A-Za-z0-9_.@%^+~=:,-]+)*")
_NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_SHA256 = r"^[0-9a-f]{64}$"


def spack_cache(prefix: Prefix) -> Path:
    """Return the folder of Spack's indexes of its own packages, which take a minute to make."""
    return prefix.cache / "spack"


class SpackSettings(FrozenModel):
    """The section `backends.spack` of the site: `spack` is a checkout of Spack, `config` a folder of its configuration
    (`packages.yaml`, `compilers.yaml`), and `python` the Python that runs it, which must have clingo.
    """

    spack: Path | None = None
    config: Path | None = None
    python: Path | None = None

    @field_validator("spack", "config", "python")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        if value is not None and not (value.is_absolute() and is_plain_path(value)):
            raise ValueError("must be an absolute path without spaces, colons, quotes and shell characters")
        return value


class SpackInput(FrozenModel):
    """`specs` are what is asked for, in Spack's words. All is built for `target`, by default the site's `cpu_level`."""

    specs: tuple[str, ...] = Field(min_length=1)
    target: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$")] | None = None

    @field_validator("specs")
    @classmethod
    def _plain(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        refuse(
            f"`{each}` is no spec (NAME@VERSION, with Spack's signs)" for each in values if not _SPEC.fullmatch(each)
        )
        return values

    def for_site(self, site: Site) -> dict[str, Any]:
        """Return what a lock answers: never the host's own target."""
        return {"specs": list(self.specs), "target": self.target or site.cpu_level.replace("-", "_")}


class SpackSource(FrozenModel):
    """A file from which `package` is built. `place` is where a mirror of Spack has it."""

    package: str
    sha256: str = Field(pattern=_SHA256)
    place: str = Field(pattern=r"^_source-cache/archive/[0-9a-f]{2}/[0-9a-f]{64}(\.[A-Za-z0-9]+)*$")
    urls: tuple[str, ...] = ()

    def file(self, site: Site) -> SourceFile:
        """Return it as the cache has it, by upstream's name if it has one. A mirror of the site may be one of Spack."""
        named = (url.rpartition("/")[2] for url in (*self.urls, self.place))
        name = next(each for each in named if _NAMED.fullmatch(each))
        return SourceFile(
            name, self.sha256, self.urls, "", tuple(f"{each}/{self.place}" for each in site.sources.mirrors)
        )


class SpackRecord(FrozenModel):
    """The part of the lock that is ours. `recipe` is the digest of the input, `lock` the sha256 of `spack.lock`."""

    version: Literal[1] = 1
    recipe: str
    lock: str = Field(pattern=_SHA256)
    sources: tuple[SpackSource, ...]


@dataclass(frozen=True, slots=True)
class Locked:
    """All that a build needs of a lock. `text` is that of its `spack.lock`, and `wanted` what it answers."""

    entry: Entry
    record: SpackRecord
    content: SpackLock
    text: str
    wanted: Mapping[str, Any]
