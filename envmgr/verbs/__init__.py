"""Verbs, one file each: the options, the work, the result and its text. Here is what they share: `needs`, and options that
several verbs take.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

if TYPE_CHECKING:
    from envmgr.steps.opening import Needs

_F = TypeVar("_F", bound=Callable[..., Any])


def needs(what: Needs) -> Callable[[_F], _F]:
    """Mark a verb, whose first parameter is a `Context`, with what it needs of the prefix.

    A verb that needs to write only looks with --dry-run.
    """

    def mark(verb: _F) -> _F:
        vars(verb)["needs"] = what
        return verb

    return mark


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


def option(help_text: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """Return an option of typer with this help; `metavar` is the word for its value. Without `names` it is called as its
    parameter.
    """
    return typer.Option(*names, help=help_text, metavar=metavar, **more)


def argument(help_text: str, metavar: str | None = None) -> Any:
    """Return an argument of typer with this help; `metavar` is the word for it."""
    return typer.Argument(help=help_text, metavar=metavar)


SiteOption = Annotated[Path | None, option("The site.yaml to use, or the folder that holds it.", "FILE", "--site")]
FormatOption = Annotated[Format, option("Text for people, or JSON with a versioned schema.", None, "--format")]
AuditDryRun = Annotated[
    bool, option("Look, and write no file: not those of options, nor what `--gate` asks.", None, "--dry-run", "-n")
]
DryRun = Annotated[bool, option("Show what would be done; change nothing.", None, "--dry-run", "-n")]
SomeEntries = Annotated[list[str] | None, argument("Entries, as name/version.", "ENTRY")]
AllowNetwork = Annotated[
    bool, option("Let builds from source use a network where envmgr cannot block it.", None, "--allow-network")
]
All = Annotated[bool, option("Take every entry of the catalog.", None, "--all")]

OneWay = Literal["ssh", "slurm"]
NodesOption = Annotated[
    str | None, option("Node set, such as c[1-3] or @gpu; all groups by default.", "SET", "--nodes")
]
ViaOption = Annotated[OneWay | None, option("Reach nodes by ssh or Slurm; by default as the site says.", None, "--via")]
DeadlineOption = Annotated[
    float | None, option("Wait at most this long for all nodes together.", "SECONDS", "--deadline", min=1)
]
GenerationOption = Annotated[
    int | None,
    option("Look at this generation, such as a candidate; by default the current one.", "NUMBER", "--generation"),
]
Candidate = Annotated[
    bool, option("Make a complete generation, and do not make it current: see `promote`.", None, "--candidate")
]
OutputOption = Annotated[
    Path | None,
    option("Write to this file in one step; stdout by default.", "FILE", "--output", "-o", callback=plain_file),
]
PartitionOption = Annotated[str | None, option("Run the job in this Slurm partition.", "NAME", "--partition")]
AccountOption = Annotated[str | None, option("Charge the job to this Slurm account.", "NAME", "--account")]
TimeOption = Annotated[
    str | None, option("Time limit of the job in Slurm's format, such as 90, 4:00:00 or 2-0.", "T", "--time")
]
