"""Builds of installs from locks: each missing install is built once, here or as a Slurm job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BuildJob:
    """The job of one store item: `job` is its number, empty before it is sent; `after` are the items it waits for."""

    item: str
    job: str
    after: tuple[str, ...]
    attached: bool
