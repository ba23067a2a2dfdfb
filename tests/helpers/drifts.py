"""Drifts of nodes as data (tests/cluster/audit/drifts.yaml): put on a cluster, told by an audit, mended as a hint says, undone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from envmgr.nodes.sets import expand
from tests.helpers.cluster import Cluster
from tests.helpers.places import ROOT

_FILE = ROOT / "tests/cluster/audit/drifts.yaml"


@dataclass(frozen=True)
class OnNodes:
    """What is wrong on nodes: `do` and `undo` are shell text for root on each of `nodes`; `ask` is the audit's arguments, `told` what it must tell."""

    name: str
    story: str
    nodes: tuple[str, ...]
    do: str
    undo: str
    ask: tuple[str, ...]
    told: tuple[dict[str, str], ...]
    hint: str
    mends: bool

    @contextmanager
    def put(self, cluster: Cluster) -> Iterator[None]:
        done = []
        try:
            for node in self.nodes:
                done.append(node)
                cluster.sh(node, f"set -e\n{self.do}", check=True)
            yield
        finally:
            for node in done:
                self.take_back(cluster, node)

    def take_back(self, cluster: Cluster, node: str) -> None:
        cluster.sh(node, self.undo)


@dataclass(frozen=True)
class Drift(OnNodes):
    """Told by the words of one check.

    `told` are findings that must be there: severity, nodes, found (how it begins, where it ends in `…`); `hint` is in the
    hint of the first. With `mends`, that hint is followed to the letter, and the finding must be gone. One that `waits`, for a job that does not start, takes half a minute.
    """

    waits: bool

    @property
    def check(self) -> str:
        """The one that is asked."""
        return self.ask[self.ask.index("--check") + 1]

    def findings(self, result: dict[str, Any]) -> list[dict[str, Any]]:
        """Those of an audit's result that are told, in the order of `told`; fewer where some are not."""
        return [finding for want in self.told for finding in result["findings"] if _is(finding, want)]


def _is(finding: dict[str, Any], want: dict[str, str]) -> bool:
    if (finding["severity"], finding["nodes"]) != (want["severity"], want["nodes"]):
        return False
    begins, cut, _ = want["found"].partition("…")
    return (
        finding["found"].startswith(begins)
        if cut and want["found"].endswith("…")
        else finding["found"] == want["found"]
    )


def all_drifts() -> list[Drift]:
    return read_drifts(_FILE.read_text(encoding="utf-8"))


def read_drifts(text: str) -> list[Drift]:
    """The drifts of a file of rows. A field that no row has is a TypeError."""
    return [_drift(**row) for row in yaml.safe_load(text)]


def _drift(
    *,
    name: str,
    story: str,
    nodes: str,
    do: str,
    undo: str,
    ask: str,
    told: list[dict[str, str]],
    hint: str,
    mends: bool = False,
    waits: bool = False,
) -> Drift:
    return Drift(name, story, tuple(nodes.split()), do, undo, tuple(ask.split()), tuple(told), hint, mends, waits)


def follow_all(told: list[dict[str, Any]], cluster: Cluster) -> None:
    """The hints of all findings, each once, the last lines of a file first."""
    hints = {finding["hint"]: finding["nodes"] for finding in told}
    for hint in sorted(hints, key=lambda hint: [-int(line) for line in re.findall(r":([0-9]+)\b", hint)[:1]]):
        follow(hint, hints[hint], cluster)


def follow(hint: str, nodes: str, cluster: Cluster) -> None:
    """Do what a hint says, where it names a line (`FILE:LINE`: it is taken away) or a command: `envmgr …`, or one on the node."""
    there = expand(nodes)
    lines = re.findall(r"(/[^ :]+):([0-9]+)\b", hint)
    if lines:
        for path, line in lines[:1]:
            for node in there[:1] if path.startswith("/home/") else there:
                cluster.sh(node, f"sed -i {line}d {path}", check=True)
        return
    command = re.search(r"(?:^|on the node: |: )`([^`]+)`", hint)
    assert command, f"no command in {hint!r}"
    if command[1].startswith("envmgr "):
        done = cluster.envmgr(command[1].split()[1:])
        assert done.code in (0, 1), done.stderr
        return
    for node in there[:1] if "/home/" in command[1] or "~alice" in command[1] else there:
        cluster.sh(node, command[1], check=True)
