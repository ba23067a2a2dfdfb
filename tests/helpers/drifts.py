"""Drifts of nodes as data (tests/cluster/audit/drifts.yaml, foreign_drifts.yaml): put on a cluster, named by an audit, undone."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from envmgr.nodes.sets import expand
from tests.helpers.cluster import Cluster
from tests.helpers.drift_measure import Expected
from tests.helpers.places import ROOT

_FOLDER = ROOT / "tests/cluster/audit"


@dataclass(frozen=True)
class Drift:
    """What is wrong on nodes: `do` and `undo` are shell text for root on each of `nodes`.

    An audit's first finding has one of `names` (see `Expected`), on exactly these nodes, or on those of `seen_on`; this may be a
    `note`. `tree` is what a foreign cluster needs for it.
    """

    name: str
    story: str
    nodes: str
    do: str
    undo: str
    names: tuple[str, ...]
    seen_on: str = ""
    note: bool = False
    tree: str = ""

    @property
    def expected(self) -> Expected:
        """What a report is judged by. The host that audits may be named, too, or alone: homes are shared."""
        seen = frozenset(expand(self.seen_on or self.nodes.replace(" ", ",")))
        also = frozenset({"login"}) if seen != {"login"} else frozenset()
        return Expected(self.names, seen | also, frozenset() if self.note else seen, also, self.nodes == "login")

    @contextmanager
    def put(self, cluster: Cluster) -> Iterator[None]:
        done = []
        try:
            for node in self.nodes.split():
                done.append(node)
                cluster.sh(node, f"set -e\n{self.do}", check=True)
            yield
        finally:
            for node in done:
                cluster.sh(node, self.undo)


def all_drifts() -> list[Drift]:
    return read_drifts(_FOLDER / "drifts.yaml")


def foreign_drifts() -> list[Drift]:
    return read_drifts(_FOLDER / "foreign_drifts.yaml")


def read_drifts(file: Path | str) -> list[Drift]:
    """The drifts of a file of rows, or of its text. A field that no row has is a TypeError."""
    text = file if isinstance(file, str) else file.read_text(encoding="utf-8")
    return [Drift(**{**row, "names": tuple(row["names"])}) for row in yaml.safe_load(text)]


def carry_out(step: dict[str, Any], cluster: Cluster) -> None:
    """Do one step of a hint, as root."""
    if step["command"].startswith("envmgr "):
        done = cluster.envmgr(shlex.split(step["command"])[1:])
        assert done.code in (0, 1), done.stderr
        return
    for node in expand(step["nodes"]) if step["nodes"] else ("fs1" if step["server"] else "login",):
        cluster.sh(node, step["command"], check=True)
