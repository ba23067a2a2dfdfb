"""`envmgr user`: the options that its verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the environment; its module is user/NAME.")]
Packages = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PACKAGE]", help="Packages as pip has them, such as einops or scipy>=1.11."),
]
Requirements = Annotated[
    Path | None, typer.Option("--requirements", "-r", metavar="FILE", help="Also take the packages of this file.")
]
Replace = Annotated[
    list[str] | None,
    typer.Option("--replace", metavar="PACKAGE", help="Take a copy of your own of this package of the entry."),
]
Jobs = Annotated[int, typer.Option("--jobs", min=0, metavar="N", help="Processes at once; by default one a core.")]
