"""Drifts of clusters without envmgr (tests/cluster/audit/foreign_drifts.yaml): put on one, told by an audit in whatever words, undone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from envmgr.nodes.sets import expand
from tests.helpers.cluster import Cluster
from tests.helpers.drifts import OnNodes
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
    """Do what its hint says that changes something: a command on the node, or the line which did it is taken away. Returns what was done."""
    commands = [
        c
        for c in re.findall(r"`([^`]+)`", finding["hint"])
        if re.match(r"(chmod|chown|runuser|mount|umount|usermod|rm) \S", c)
    ]
    lines = re.findall(r"(/[^\s:]+):(\d+) (?:sets|adds) it (on|in) (\S+?)(?:;|$)", finding["hint"])
    accused = expand(finding["nodes"])
    done = []
    for node in accused:
        mine = [(path, line) for path, line, word, of in lines if word == "in" or node in expand(of)]
        for script in [*commands, *(f"sed -i {line}d {path}" for path, line in mine)]:
            cluster.sh(node, script, check=True)
            done.append(f"{node}: {script}")
    return done


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
