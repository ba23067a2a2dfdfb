"""Drifts of clusters without envmgr (tests/cluster/audit/foreign_drifts.yaml): put on one, told by an audit in whatever words, undone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from envmgr.nodes.sets import expand
from tests.helpers.cluster import Cluster
from tests.helpers.drifts import OnNodes, carry_out
from tests.helpers.places import ROOT

_FILE = ROOT / "tests/cluster/audit/foreign_drifts.yaml"
_SEVERITIES = ("note", "warning", "error")
_WORDS = ("where", "found", "expected", "hint")


@dataclass(frozen=True)
class ForeignDrift(OnNodes):
    """Told by key words, the first of `told` decides; where its hint `mends`, what that says is done, and it is told no more.

    `missed` says why it is not told, and is empty for all others.
    """

    tree: str
    missed: str

    def take_back(self, cluster: Cluster, node: str) -> None:
        cluster.sh(node, f"set -e\n{self.undo}", check=True)

    def is_told(self, findings: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """The finding of its first expectation, with the hint that it wants."""
        return next((f for f in findings if _fits(f, self.told[0]) and _has(self.hint, f["hint"])), None)

    def strangers(self, findings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Errors and warnings that accuse a node on which it is not."""
        expected = {node for want in self.told for node in expand(want["nodes"])}
        return [f for f in findings if f["severity"] != "note" and not set(expand(f["nodes"])) <= expected]


def follow(finding: dict[str, Any], cluster: Cluster) -> list[str]:
    """Carry out its hint, or the commands in its text that change something. Returns what was done."""
    acting = [step for step in finding["actions"] if step["do"] != "look"]
    for step in acting:
        carry_out(step, cluster)
    if acting:
        return [str(step) for step in acting]
    commands = re.findall(r"`((?:chmod|chown|runuser|mount|umount|usermod|rm) [^`]+)`", finding["hint"])
    for node in expand(finding["nodes"]):
        for command in commands:
            cluster.sh(node, command, check=True)
    return commands


def _fits(finding: dict[str, Any], want: dict[str, str]) -> bool:
    severe = _SEVERITIES.index(finding["severity"]) >= _SEVERITIES.index(want["severity"])
    return severe and finding["nodes"] == want["nodes"] and _has(want["found"], *(finding[key] for key in _WORDS))


def _has(words: str, *texts: str) -> bool:
    """Whether all words are there, or one of those with `|` between."""
    text = " ".join(texts).lower()
    return all(any(word.lower() in text for word in words.split("|")) for words in words.split())


def foreign_drifts() -> list[ForeignDrift]:
    rows = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return [
        ForeignDrift(
            row["name"],
            row["story"],
            tuple(row["nodes"].split()),
            row["do"],
            row["undo"],
            tuple(row["ask"].split()),
            tuple(row["told"]),
            row["hint"],
            row["mends"],
            row["tree"],
            row.get("missed", ""),
        )
        for row in rows
    ]
