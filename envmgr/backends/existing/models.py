"""The input of a recipe for an install that somebody else made, and the lock, which has what was found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from envmgr.catalog.site_file import is_plain_path
from envmgr.modules.spec import EnvOp
from envmgr.system.models import FrozenModel, refuse
from envmgr.wording import first_unseen

LOCK_NAME = "existing-lock.yml"


class SpackSpec(FrozenModel):
    """One install of a Spack: `tree` has the database (`.spack-db/index.json`), `hash` is the whole hash."""

    tree: str
    hash: str = Field(pattern=r"^[a-z0-9]{32}$")

    @field_validator("tree")
    @classmethod
    def _absolute(cls, value: str) -> str:
        return _path(value)


class ExistingInput(FrozenModel):
    """`path` is the tree. Its environment is that of its own `module` (a file, or a name in `modulepath`), or of the
    text that `command` prints, or by default that of its folders (`bin`, `share/man` …).
    """

    path: str
    manifest: Literal["full", "times"] = "full"
    ignore: tuple[str, ...] = ("__pycache__",)
    module: str = ""
    modulepath: tuple[str, ...] = ()
    command: str = ""
    spack: SpackSpec | None = None

    @field_validator("path")
    @classmethod
    def _absolute(cls, value: str) -> str:
        return _path(value)

    @field_validator("modulepath")
    @classmethod
    def _folders(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_path(value) for value in values)

    @field_validator("ignore")
    @classmethod
    def _names(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        wrong = (value for value in values if not re.fullmatch(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]*", value))
        refuse(f"`{value}` is not the name of a file or folder: letters, digits and `_.+-`" for value in wrong)
        return values

    @field_validator("module", "command")
    @classmethod
    def _one_line(cls, value: str) -> str:
        if first_unseen(value) or value.startswith("-"):
            raise ValueError("must be one line, without control characters, and no option")
        return value

    @model_validator(mode="after")
    def _one_source(self) -> ExistingInput:
        if self.module and self.command:
            raise ValueError("the environment comes from `module` or from `command`, not from both")
        if self.module.startswith("/") and (len(Path(self.module).parts) < 4 or self.modulepath):
            raise ValueError("`module` is FOLDER/NAME/VERSION, or NAME/VERSION in a folder of `modulepath`")
        if self.modulepath and not self.module:
            raise ValueError("`modulepath` says where `module` is looked for, and there is none")
        return self

    @property
    def source(self) -> str:
        """The source of the environment, in words."""
        if self.module:
            return f"module {self.module}"
        return f"command {self.command}" if self.command else "folders"


class SpackFacts(FrozenModel):
    """The facts of an install in the database of the Spack in `tree`."""

    tree: str
    spec: str
    hash: str
    compiler: str
    target: str


class SeenTree(FrozenModel):
    """A tree at the time of the lock: `sha256` is over all its rows, without names of `ignore`."""

    how: Literal["full", "times"]
    ignore: tuple[str, ...]
    sha256: str
    files: int
    size: int


class ExistingLock(FrozenModel):
    """`recipe` is the digest of the input that the lock answers. `environment` is in load order, and was taken from
    `source`. `python` is the version of the Python that the tree puts first, empty without one.
    """

    version: Literal[1] = 1
    recipe: str
    path: str
    tree: SeenTree
    source: str
    environment: tuple[EnvOp, ...]
    python: str = ""
    spack: SpackFacts | None = None

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders of its software: the tree, and that of the Spack which made it."""
        return (self.path, self.spack.tree) if self.spack else (self.path,)


def _path(value: str) -> str:
    if not value.startswith("/") or not is_plain_path(Path(value)) or ".." in value.split("/"):
        raise ValueError(f"`{value}` must be an absolute path without spaces, colons, quotes and shell characters")
    return value.rstrip("/") or "/"
