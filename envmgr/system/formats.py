"""Formats of the files that envmgr itself keeps: each has a number, and a file of a later one is refused, not misread."""

from __future__ import annotations

from pathlib import Path

from envmgr.errors import EnvmgrError


def require_format(found: object, known: int, path: Path) -> None:
    """Raises EnvmgrError `format-unknown` unless `found` is `known`."""
    if found != known or isinstance(found, bool):
        raise EnvmgrError(
            "format-unknown",
            f"{path} has format {found!r}, and this envmgr knows format {known}",
            hint="use the envmgr that wrote it, or a later one",
        )
