"""The document of a software bill of materials. The same installs give the same bytes: identifiers come from digests, the
time from the manifest.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from envmgr.store.parts import Part

if TYPE_CHECKING:
    from packageurl import PackageURL

_SPACE = uuid.UUID("6f3b1d52-8f7e-5c0e-9a39-3f4a7c1d2e60")  # of these documents; any fixed one would do


@dataclass(frozen=True, slots=True)
class CarriedPart:
    """A component that a package's own SBOM names. Any but the name may be empty; `purl` is as it is there."""

    name: str
    version: str
    purl: str


@dataclass(frozen=True, slots=True)
class CarriedSbom:
    """An SBOM that a package brings (PEP 770). `path` is relative to the install; `parts` are those of a CycloneDX file
    in JSON, and none of other files.
    """

    path: str
    sha256: str
    parts: tuple[CarriedPart, ...]


@dataclass(frozen=True, slots=True)
class Component:
    """A part in a document. `ref` is its identifier there, and `needs` are those of other parts."""

    ref: str
    part: Part
    needs: tuple[str, ...]
    licence: str
    carried: tuple[CarriedSbom, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A document of one entry, or of a generation. `members` maps each entry to its components; one that is the document
    itself is `name/version`. `seed` is the text that decides the identifiers. `carried` are SBOMs of no known part.
    """

    name: str
    version: str
    seed: str
    time: datetime
    components: tuple[Component, ...]
    members: Mapping[str, tuple[str, ...]]
    carried: tuple[CarriedSbom, ...] = ()

    @property
    def serial(self) -> uuid.UUID:
        return uuid.uuid5(_SPACE, self.seed)


def purl_of(part: Part) -> PackageURL:
    """Return the package URL. Source: the purl specification's types; an image's version there is its digest."""
    from packageurl import PackageURL

    version = f"sha256:{part.sha256}" if part.purl == "oci" else part.version
    space, _, name = part.name.strip("/").rpartition("/")  # a purl cannot quote it
    return PackageURL(part.purl, space or None, name or "-", version or None, dict(part.qualifiers))
