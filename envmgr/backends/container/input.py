"""The input of a container recipe, and the settings of the site."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator

from envmgr.system.models import FrozenModel

_IMAGE = re.compile(
    r"(?P<repository>[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)+)"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(@sha256:(?P<digest>[0-9a-f]{64}))?"
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


# Folders of an image's own system, which a folder of the node would hide as a whole.
_SYSTEM = {f"/{name}" for name in "bin boot dev etc lib lib32 lib64 libx32 proc run sbin sys usr var".split()}


def _plain(value: str) -> str:
    if {".", ".."} & {*value.split("/")}:
        raise ValueError("must be a plain path, without `.` and `..`")
    path = f"/{'/'.join(filter(None, value.split('/')))}"
    if path == "/" or path in _SYSTEM:
        raise ValueError(f"`{path}` of the node would hide the image's own: name a folder in it")
    return path


_PATH = r"^/[A-Za-z0-9._+/-]+$"
ALWAYS = ("shell", "run")
"""Programs that each install has beside its commands: a shell in the image, and any program of it."""
Folder = Annotated[str, StringConstraints(pattern=_PATH), AfterValidator(_plain)]


class ContainerSettings(FrozenModel):
    """The section `backends.container` of the site. `registries_conf` is skopeo's file of mirrors and registries without
    TLS, instead of the host's. `runtime` is what runs images where a user names no other. Each image gets places for the
    folders `bind`, beside those of its recipe.
    """

    registries_conf: Path | None = None
    bind: tuple[Folder, ...] = ()
    runtime: Literal["apptainer", "podman", "charliecloud"] | None = None


class ContainerInput(FrozenModel):
    """`image` names a registry, and a tag or a digest. `commands` maps the names of programs to their paths in the image,
    empty where its PATH finds them. `bind` are folders of the node that are seen inside at the same path.
    """

    image: str
    commands: Mapping[str, str] = Field(min_length=1)
    gpu: bool = False
    bind: tuple[Folder, ...] = ()
    platform: Literal["linux/amd64", "linux/arm64"] = "linux/amd64"

    @field_validator("image")
    @classmethod
    def _image(cls, value: str) -> str:
        match = _IMAGE.fullmatch(value)
        if match is None or not (match["tag"] or match["digest"]):
            raise ValueError("must be `registry/name:tag` or `registry/name@sha256:…`")
        return value

    @field_validator("commands", mode="before")
    @classmethod
    def _commands(cls, value: object) -> object:
        return dict.fromkeys(value, "") if isinstance(value, (list, tuple)) else value

    @field_validator("commands")
    @classmethod
    def _names(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name, path in value.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"`{name}` is no name of a program")
            if name in ALWAYS:
                raise ValueError(f"`{name}` is there in each install of an image")
            if path and not re.match(_PATH, path):
                raise ValueError(f"`{path}` is no path in an image")
        return value

    @property
    def repository(self) -> str:
        return str(self._parts["repository"])

    @property
    def wanted(self) -> str:
        """The digest, or the tag without one, as it follows the repository."""
        parts = self._parts
        return f"@sha256:{parts['digest']}" if parts["digest"] else f":{parts['tag']}"

    @property
    def _parts(self) -> re.Match[str]:
        match = _IMAGE.fullmatch(self.image)
        assert match is not None
        return match
