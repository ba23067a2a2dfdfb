"""Files of other tools with the published entries and the nodes that run them.

Each tool is one module of this folder, and `export --to` takes its name. It gets a `Cluster`, which holds all that is
known, and returns text: it asks nothing.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import Protocol, cast

from envmgr.catalog.names import nearest
from envmgr.errors import InputError
from envmgr.exchange import writers
from envmgr.modules.spec import ModuleSpec
from envmgr.wording import did_you_mean


@dataclass(frozen=True, slots=True)
class SlurmAccess:
    """The way for a job to get just these nodes. `options` are sbatch's; `accounting`: Slurm keeps jobs that have
    ended.
    """

    options: tuple[str, ...]
    accounting: bool


@dataclass(frozen=True, slots=True)
class ClusterPart:
    """The nodes of one group of the site, as `fold` writes them, and the entries that can run there.

    `slurm` is None where Slurm does not know them; then ssh reaches them, or (`nodes` empty) they are the host itself.
    `gpu`: the last audit saw a GPU with its driver on every node.
    """

    name: str
    nodes: tuple[str, ...]
    folded: str
    slurm: SlurmAccess | None
    gpu: bool
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A site with what it has published. `hosts` are those on which users start programs: login nodes, and this
    host. `entries` are the modules that users load.
    """

    name: str
    prefix: str
    generation: int
    hosts: tuple[str, ...]
    parts: tuple[ClusterPart, ...]
    entries: tuple[ModuleSpec, ...]


class Exporter(Protocol):
    """A module of this folder. Pure: text out, no I/O. Its docstring begins with what the file is."""

    def cluster_text(self, cluster: Cluster) -> str:
        """Return the whole file, the same for the same cluster."""


def exporter_names() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(__path__))


def get_exporter(name: str) -> Exporter:
    """Return the module of a tool. Raises InputError `unknown-exchange`, with the nearest names."""
    if name not in exporter_names():
        known = sorted((*exporter_names(), *writers()))
        hint = did_you_mean(nearest(name, known), f"known: {', '.join(known)}")
        raise InputError("unknown-exchange", f"nothing is written for `{name}`", hint=hint)
    return cast("Exporter", importlib.import_module(f"{__name__}.{name}"))
