"""What the slow tests share: a prefix that outlives them, and two nodes that see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.cluster.needs import reason_to_skip
from tests.helpers.eb_scene import Workshop


@dataclass
class Lasting(Workshop):
    """A site whose prefix, `lasting`, outlives it."""

    lasting: Path = Path("/nonexistent")

    @property
    def prefix(self) -> Path:
        return self.lasting


@contextmanager
def two_nodes(folder: Path) -> Iterator[Cluster]:
    """A cluster with two compute nodes that see this host's prefixes at their own paths."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    cluster = Cluster(folder / "lab", nodes=2)
    cluster.up()
    try:
        cluster.wait_idle()
        yield cluster
    finally:
        cluster.down()
