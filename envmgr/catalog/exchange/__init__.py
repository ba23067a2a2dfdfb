"""Files of other tools' kinds that a cluster's published entries are written as: one module each, found by its place.

A module's name is what `export --to` takes. It gets a `Cluster`, which holds all that is known, and gives text: nothing is asked there.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import Protocol, cast

from envmgr.catalog.names import nearest
from envmgr.catalog.recipe import Requires, SmokeTest
from envmgr.errors import InputError
from envmgr.wording import did_you_mean


@dataclass(frozen=True, slots=True)
class SlurmAccess:
    """How a job gets to just these nodes. `options` are sbatch's; `accounting` is whether Slurm keeps what has ended."""

    options: tuple[str, ...]
    accounting: bool


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes of one group of the site, as `fold` writes them, and the entries that can run there.

    `slurm` is None where Slurm does not know them; then ssh reaches them, or (`nodes` empty) it is the host itself. `gpu`: the last
    audit saw a GPU with its driver on every one.
    """

    name: str
    nodes: tuple[str, ...]
    folded: str
    slurm: SlurmAccess | None
    gpu: bool
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublishedAs:
    """An entry as users load it: `root` is its install, `python` whether its module puts a Python into PATH."""

    entry: str
    name: str
    version: str
    root: str
    digest: str
    python: bool
    requires: Requires
    tests: tuple[SmokeTest, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A site with what it has published. `hosts` are those on which users start programs: login nodes, and this host."""

    name: str
    prefix: str
    generation: int
    hosts: tuple[str, ...]
    parts: tuple[Part, ...]
    entries: tuple[PublishedAs, ...]


class Exchange(Protocol):
    """A module of this folder. Pure: text out, no I/O. Its docstring begins with what the file is."""

    def cluster_text(self, cluster: Cluster) -> str:
        """The whole file, the same for the same cluster."""


def exchange_names() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(__path__))


def get_exchange(name: str) -> Exchange:
    """Raises InputError `unknown-exchange`, with the nearest names."""
    if name not in exchange_names():
        close = nearest(name, exchange_names())
        raise InputError(
            "unknown-exchange",
            f"nothing is written for `{name}`",
            hint=did_you_mean(close, f"known: {', '.join(exchange_names())}"),
        )
    return cast("Exchange", importlib.import_module(f"{__name__}.{name}"))
