"""The lock of a container recipe: `image.lock.json`, the image as its registry describes it, without the registry's answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from envmgr.store.parts import Part
from envmgr.system.files import pretty_json
from envmgr.system.models import FrozenModel

# A name that shells know, and a value of one line: the image's author writes both, and runtimes read them line by line.
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=[^\x00-\x08\x0a-\x1f\x7f]*")
LOCK_NAME = "image.lock.json"
FORMAT: Literal[1] = 1


class LockedBlob(FrozenModel):
    """A file of the image; `size` is bytes."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=1)
    media_type: str

    @property
    def file(self) -> str:
        """Return its name in the cache."""
        return f"{self.sha256[:12]}.blob"


class ContainerLock(FrozenModel):
    """The image that a recipe's reference resolved to. `manifest` is its digest (sha256); `environment` are lines `NAME=value`."""

    version: Literal[1] = FORMAT
    recipe_digest: str
    image: str
    platform: str
    manifest: str = Field(pattern=r"^[0-9a-f]{64}$")
    config: LockedBlob
    layers: tuple[LockedBlob, ...] = Field(min_length=1)
    environment: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    workdir: str = ""
    labels: Mapping[str, str] = Field(default_factory=dict)

    @property
    def blobs(self) -> tuple[LockedBlob, ...]:
        """Every file of it, each once."""
        return tuple({blob.sha256: blob for blob in (self.config, *self.layers)}.values())

    @property
    def variables(self) -> dict[str, str]:
        """Return name -> value of the variables that every runtime can set; `strange` has the other lines."""
        return dict(line.partition("=")[::2] for line in self.environment if _VARIABLE.fullmatch(line))

    @property
    def strange(self) -> tuple[str, ...]:
        return tuple(line for line in self.environment if not _VARIABLE.fullmatch(line))

    def cuda(self) -> str | None:
        """Return the CUDA version (`12.6`) that the image says that it has; None if it says none.

        Source: ENV of NVIDIA's images. In NVIDIA_REQUIRE_CUDA (`cuda>=12.4 brand=tesla,driver>=470,driver<471 ...`), words are
        alternatives, of which the first is for every driver.
        """
        said = self.variables
        wanted = re.match(r"(?:[^ ,]+,)*cuda>=([0-9.]+)", said.get("NVIDIA_REQUIRE_CUDA", ""))
        found = re.match(r"\d+\.\d+", said.get("CUDA_VERSION", "") or (wanted[1] if wanted else ""))
        return found[0] if found else None

    def packages(self) -> dict[str, str]:
        """Return the image as a package: its name without registry -> tag and digest."""
        name, _, tag = self.image.partition("@")[0].rpartition(":")
        name = name or self.image.partition("@")[0]
        return {name.partition("/")[2]: f"{tag if '/' not in tag else ''} {self.manifest[:12]}".strip()}

    def part(self) -> Part:
        """Return the image as the part of an install. Source: the purl type `oci`: the last word of the name, and the
        digest as the version.
        """
        place, _, tag = self.image.partition("@")[0].rpartition(":")
        place, tag = (place, tag) if place and "/" not in tag else (self.image.partition("@")[0], "")
        name = place.rpartition("/")[2]
        said = {"repository_url": place, "tag": tag, "arch": self.platform.rpartition("/")[2]}
        qualifiers = {key: value for key, value in said.items() if value}
        version = tag or f"sha256:{self.manifest}"
        return Part(
            ecosystem="oci",
            name=name,
            version=version,
            key=name,
            sha256=self.manifest,
            purl="oci",
            qualifiers=qualifiers,
        )

    def text(self) -> str:
        return pretty_json(self.model_dump(mode="json"))
