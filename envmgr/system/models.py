"""The base of every model that crosses a process or a file, and the check of a file's format."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from envmgr.errors import EnvmgrError


class FrozenModel(BaseModel):
    """Cannot be changed once made, and refuses fields that it does not have."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def require_format(found: object, known: int, path: Path) -> None:
    """Raise EnvmgrError `format-unknown` unless `found` is `known`."""
    if found != known or isinstance(found, bool):
        raise EnvmgrError(
            "format-unknown",
            f"{path} has format {found!r}, and this envmgr knows format {known}",
            hint="use the envmgr that wrote it, or a later one",
        )
