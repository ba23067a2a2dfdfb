"""The options that several verbs take."""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envmgr.cli.formats import format_names


class Format(StrEnum):
    table = "table"
    json = "json"


if TYPE_CHECKING:
    AuditFormat = str
else:  # one of the formats for all verbs, or of those that are files of `formats/`
    AuditFormat = StrEnum("AuditFormat", [(name, name) for name in (*Format, *format_names())])


class BuildVia(StrEnum):
    local = "local"
    slurm = "slurm"


SiteOption = Annotated[
    Path | None, typer.Option("--site", help="site.yaml to use, or the folder it lies in.", metavar="FILE")
]
FormatOption = Annotated[Format, typer.Option("--format", help="Text for people, or JSON with a versioned schema.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be done; change nothing.")]
Entries = Annotated[list[str], typer.Argument(metavar="ENTRY", help="Entries, as name/version.")]
SomeEntries = Annotated[list[str] | None, typer.Argument(metavar="ENTRY", help="Entries, as name/version.")]
AllowNetwork = Annotated[
    bool,
    typer.Option("--allow-network", help="Let builds from source have a network where they cannot be kept off it."),
]
All = Annotated[bool, typer.Option("--all", help="Every entry of the catalog.")]


def plain_file(path: Path | None) -> Path | None:
    """A rename would put a file in a device's or a link's place; and a folder cannot be replaced."""
    if path is not None and os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise typer.BadParameter(f"{path} is there, and is not a plain file.")
    return path
