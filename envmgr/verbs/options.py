"""The options that several verbs take."""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer


class Format(StrEnum):
    table = "table"
    json = "json"


def plain_file(path: Path | None) -> Path | None:
    """Return `path`; refuse a device or a link, whose place a rename would take, and a folder, which it cannot
    replace.
    """
    if path is not None and os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise typer.BadParameter(f"{path} is there, and is not a plain file.")
    return path


SiteOption = Annotated[
    Path | None, typer.Option("--site", help="The site.yaml to use, or the folder that holds it.", metavar="FILE")
]
FormatOption = Annotated[Format, typer.Option("--format", help="Text for people, or JSON with a versioned schema.")]
AuditDryRun = Annotated[
    bool, typer.Option("--dry-run", "-n", help="Look, and write no file: not those of options, nor what `--gate` asks.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be done; change nothing.")]
Entries = Annotated[list[str], typer.Argument(metavar="ENTRY", help="Entries, as name/version.")]
SomeEntries = Annotated[list[str] | None, typer.Argument(metavar="ENTRY", help="Entries, as name/version.")]
AllowNetwork = Annotated[
    bool, typer.Option("--allow-network", help="Let builds from source use a network where envmgr cannot block it.")
]
All = Annotated[bool, typer.Option("--all", help="Take every entry of the catalog.")]

OneWay = Literal["ssh", "slurm"]
NodesOption = Annotated[
    str | None, typer.Option("--nodes", help="Node set, such as c[1-3] or @gpu; all groups by default.", metavar="SET")
]
ViaOption = Annotated[
    OneWay | None, typer.Option("--via", help="Reach nodes by ssh or Slurm; by default as the site says.")
]
DeadlineOption = Annotated[
    float | None,
    typer.Option("--deadline", min=1, metavar="SECONDS", help="Wait at most this long for all nodes together."),
]
GenerationOption = Annotated[
    int | None,
    typer.Option(
        "--generation",
        metavar="NUMBER",
        help="Look at this generation, such as a candidate; by default the current one.",
    ),
]
Candidate = Annotated[
    bool, typer.Option("--candidate", help="Make a complete generation, and do not make it current: see `promote`.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write to this file in one step; stdout by default.", callback=plain_file
    ),
]
PartitionOption = Annotated[
    str | None, typer.Option("--partition", help="Run the job in this Slurm partition.", metavar="NAME")
]
AccountOption = Annotated[
    str | None, typer.Option("--account", help="Charge the job to this Slurm account.", metavar="NAME")
]
TimeOption = Annotated[
    str | None,
    typer.Option("--time", help="Time limit of the job in Slurm's format, such as 90, 4:00:00 or 2-0.", metavar="T"),
]
