"""The parts of an install: the packages inside it, as its manifest and its lock know them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from envmgr.system.models import FrozenModel

PYPI = "pypi"
_RUNS = re.compile(r"[-_.]+")


class Part(FrozenModel):
    """One package of an install. `ecosystem` is that of its name: `pypi`, `oci`, or its backend's own.

    `build` is what the version does not say: a build string, a toolchain, the beginning of a hash. `key` is the word by
    which `needs` of other parts name it. `sha256` is that of the file that was installed or built, empty if there is
    not exactly one. `licence` is as its author wrote it. `qualifiers` are those of its purl, whose type is `purl`.
    """

    ecosystem: str
    name: str
    version: str
    build: str = ""
    key: str = ""
    needs: tuple[str, ...] = ()
    sha256: str = ""
    licence: str = ""
    purl: str = "generic"
    qualifiers: Mapping[str, str] = {}

    @property
    def called(self) -> str:
        """Its name as names of its ecosystem are compared."""
        return same_name(self.ecosystem, self.name)


def same_name(ecosystem: str, name: str) -> str:
    """Return the name in the form in which two names of an ecosystem are compared.

    Source: packaging.python.org, "Names and normalization". Others have lower-case names, or capitals that nobody knows.
    """
    return _RUNS.sub("-", name).lower() if ecosystem == PYPI else name.lower()


def recorded_parts(provenance: Mapping[str, Any], ecosystem: str) -> Iterator[Part]:
    """Yield the parts that a manifest itself records, or else the packages that it names: their versions and builds.

    Raises ValueError, TypeError for what no manifest has.
    """
    if "parts" in provenance:
        yield from map(Part.model_validate, provenance["parts"])
        return
    for name, text in dict(provenance.get("packages") or {}).items():
        version, _, build = str(text).partition(" ")
        yield Part(ecosystem=ecosystem, name=name, version=version, build=build, key=name)
