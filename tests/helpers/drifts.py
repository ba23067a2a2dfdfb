"""Drifts of nodes as data (tests/cluster/audit/drifts.yaml): put on a cluster, told by an audit, mended as a hint says, undone."""

from __future__ import annotations

import shlex
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

    def is_told(self, result: dict[str, Any]) -> bool:
        """Whether there is a finding for each that must be told; of one kind there may be more, one for each kind of shell."""
        return all(any(_is(f, want, worse=True) for f in result["findings"]) for want in self.told)

    def findings(self, result: dict[str, Any], *, worse: bool = False) -> list[dict[str, Any]]:
        """Those of an audit's result that are told, in the order of `told`; fewer where some are not.

        In a whole audit a finding may be `worse`: it has the severity of the worst that follows from it.
        """
        return [f for want in self.told for f in result["findings"] if _is(f, want, worse=worse)]


def _is(finding: dict[str, Any], want: dict[str, str], *, worse: bool) -> bool:
    there, wanted = {*expand(finding["nodes"])}, {*expand(want["nodes"])}
    if finding["severity"] not in (want["severity"], *(["error"] if worse else [])) or not wanted <= there <= {
        *wanted,
        "login",
    }:
        return False  # a whole audit also asks the host that sends jobs
    begins, cut, _ = want["found"].partition("…")
    found = str(finding["found"])
    return found.startswith(begins) if cut and want["found"].endswith("…") else found == want["found"]


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
    """Carry out the hints of findings: each step once."""
    steps = {tuple(sorted(step.items())): step for finding in told for step in finding["actions"]}
    acting = [step for step in steps.values() if step["do"] != "look"]
    assert acting, f"nothing to do in {[finding['hint'] for finding in told]}"
    for step in acting:
        carry_out(step, cluster)


def carry_out(step: dict[str, Any], cluster: Cluster) -> None:
    """Do one step of a hint, as root."""
    nodes = expand(step["nodes"]) if step["nodes"] else ()
    if step["do"] == "run" and step["command"].startswith("envmgr "):
        done = cluster.envmgr(shlex.split(step["command"])[1:])
        assert done.code in (0, 1), done.stderr
    elif step["do"] == "run":
        for node in nodes or ("fs1" if step["server"] else "login",):
            cluster.sh(node, step["command"], check=True)
