"""What the slow tests share: a prefix that outlives them, and two nodes that see it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.needs import reason_to_skip
from tests.helpers.easybuild.workshop import Workshop

_WAY = {key: value for key, value in os.environ.items() if re.fullmatch(r"(?i:\w+_proxy)|SSL_CERT_(FILE|DIR)", key)}


@dataclass
class Lasting(Workshop):
    """A site whose prefix, `lasting`, outlives it. Its envmgr reaches the public index as this process does."""

    lasting: Path = Path("/nonexistent")

    @property
    def prefix(self) -> Path:
        return self.lasting

    def environ(self, **extra: str) -> dict[str, str]:
        return super().environ(**_WAY, **extra)

    def drop_unknown(self) -> None:
        """Remove the prefix if an envmgr of other formats made it: it is built again then."""
        if self.prefix.exists() and "format-unknown" in self.run("history", "--format", "json").stdout:
            remove_tree(self.prefix)


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
