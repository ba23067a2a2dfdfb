"""The options that several verbs take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    table = "table"
    json = "json"


class AuditFormat(StrEnum):
    table = "table"
    json = "json"
    junit = "junit"
    prometheus = "prometheus"


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
All = Annotated[bool, typer.Option("--all", help="Every entry of the catalog.")]
