"""Builds of installs from locks: each missing install is built once, here or as a Slurm job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envmgr.store.manifest import InstallFacts
    from envmgr.store.prefix import Install


@dataclass(frozen=True, slots=True)
class BuildJob:
    """The job of one store item: `job` is its number, empty before it is sent; `after` are the items it waits for."""

    item: str
    job: str
    after: tuple[str, ...]
    attached: bool


@dataclass(frozen=True, slots=True)
class Ensured:
    """An install that exists. `tree` is its tree digest, `seconds` wall-clock."""

    install: Install
    built: bool
    facts: InstallFacts
    tree: str
    seconds: float
