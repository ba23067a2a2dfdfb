"""`envmgr user`: the options that its verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from envmgr.verbs import argument, option

Name = Annotated[str, argument("Name of the environment; its module is user/NAME.", "NAME")]
Packages = Annotated[
    list[str] | None, argument("Packages as pip has them, such as einops or scipy>=1.11.", "[PACKAGE]")
]
Requirements = Annotated[Path | None, option("Also take the packages of this file.", "FILE", "--requirements", "-r")]
Replace = Annotated[
    list[str] | None, option("Take a copy of your own of this package of the entry.", "PACKAGE", "--replace")
]
Jobs = Annotated[int, option("Processes at once; by default one a core.", "N", "--jobs", min=0)]
