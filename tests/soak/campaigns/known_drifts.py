"""Each drift of tests/cluster/audit/drifts.yaml under a whole audit, over ssh and in jobs: told, mended by its hint, undone.

A program does what an administrator would: it carries out the hint of the first cause, and audits again. Each round counts what was
found; what was rightly reported (the first cause is the drift, with the right hint); a hint that acts; what it fixed: no error or
warning is left, and all files, folders and mounts that the drift changed are as before, but for comments, blank lines, and what
the drift brought and the audit does not mind. Any other acting hint is wrong, as is one whose command fails, or that changed what was
healthy. Each round ends with an audit of the healthy cluster. A drift that cannot be put, and one that leaves traces, is told, and the cluster
is made anew.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.helpers.audit_scene import Audited, make
from tests.helpers.cluster import ClusterError
from tests.helpers.drifts import Drift, all_drifts, follow_all
from tests.helpers.states import State, differences, of_hint, state

ROUNDS = len(all_drifts())
COUNTED = ("found", "rightly reported", "acting", "fixed", "wrong", "causes", "false alarms", "faults")


def play(seed: int, first: int, last: int) -> Iterator[str]:
    count: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        scene = make(Path(folder) / f"lab{first}", "nfs")
        try:
            for number in range(first, last + 1):
                drift = all_drifts()[number - 1]
                said, told, clean = _round(drift, scene)
                count.update(said)
                if not clean:
                    scene.cluster.down()
                    scene = make(Path(folder) / f"lab{number + 1}", "nfs")
                words = ", ".join(f"{what} {said[what]}" for what in COUNTED[: 6 if not said["faults"] else 8])
                summary = [f"drifts {first} to {last}: {_summary(count, last - first + 1)}"] if number == last else []
                yield "\n    ".join([f"{drift.name}: {words}", *told, *summary])
        finally:
            scene.cluster.down()
    assert not count["faults"], f"{count['faults']} drifts could not be played"
    assert not count["false alarms"], f"{count['false alarms']} false alarms"


def _summary(count: Counter[str], drifts: int) -> str:
    return (
        f"found {count['found']}, rightly reported {count['rightly reported']}, fixed {count['fixed']} and {count['wrong']} wrong of "
        f"{count['acting']} acting hints, {count['causes'] / drifts:.2f} causes a drift, "
        f"{count['false alarms']} false alarms in {drifts - count['faults']} healthy audits"
    )


def _round(drift: Drift, scene: Audited) -> tuple[Counter[str], list[str], bool]:
    """What one drift counts; what is told besides; and whether the cluster is as before."""
    try:
        scene.cluster.wait_idle()
        before = state(scene.cluster)
        said, told = rated(drift, scene, before)
        _resume(scene)
        left = differences(before, state(scene.cluster))
        alarms = [] if left else _words(scene.audit("--via", "both"))
        if left:
            told.append(f"left behind, the cluster is made anew: {', '.join(left[:6])}")
    except Exception as error:  # noqa: BLE001 - a drift that cannot be played is told, and the next one is played
        return Counter(faults=1), [f"fault: {type(error).__name__}: {str(error)[-300:]}"], False
    said["false alarms"] = int(bool(alarms))
    return said, [*told, *(f"false alarm: {alarm}" for alarm in alarms)], not left and not alarms


def _resume(scene: Audited) -> None:
    """Let Slurm use the nodes again that jobs have drained, as an administrator does once the cause is gone."""
    scene.cluster.sh("login", f"scontrol update nodename={','.join(scene.cluster.compute)} state=resume")
    scene.cluster.wait_idle()


def _words(result: dict[str, Any]) -> list[str]:
    keys = ("severity", "check", "nodes", "where", "found")
    return [" ".join(f[key] for key in keys)[:200] for f in result["findings"]]


def rated(drift: Drift, scene: Audited, before: State) -> tuple[Counter[str], list[str]]:
    """What an audit makes of a drift, and why its hint is wrong."""
    said: Counter[str] = Counter()
    with drift.put(scene.cluster):
        result = scene.audit("--via", "both")
        note = all(of["severity"] == "note" for of in drift.told)
        causes = [cause for cause in result["causes"] if note or cause["severity"] != "note"]
        said["causes"] = len(causes)
        said["found"] = int(drift.is_told(result))
        said["rightly reported"] = int(
            bool(causes)
            and bool(drift.findings({"findings": [causes[0], *causes[0]["consequences"]]}, worse=True))
            and drift.hint in causes[0]["hint"]
        )
        if not causes or all(step["do"] == "look" for step in causes[0]["actions"]):
            return said, []
        faults = _faults(drift, causes[0], scene, before)
    said.update({"acting": 1, "wrong" if faults else "fixed": 1})
    return said, [f"wrong: {fault[:300]}" for fault in faults]


def _faults(drift: Drift, cause: dict[str, Any], scene: Audited, before: State) -> list[str]:
    """Carry out the hint, and return what is wrong then."""
    drifted = state(scene.cluster)
    try:
        follow_all([cause], scene.cluster)
        _resume(scene)
    except (AssertionError, ClusterError, subprocess.TimeoutExpired) as error:
        return [f"it fails: {error}"]
    harmed, lost = of_hint(before, drifted, state(scene.cluster))
    faults = [f"it changed {path}" for path in harmed] + [f"not as before: {path}" for path in lost]
    result = scene.audit("--via", "both")
    still = {**result, "findings": [f for f in result["findings"] if f["severity"] != "note"]}
    return [*faults, *(f"still told: {words}" for words in _words(still))] + [
        f"still told: {f['found']}" for f in drift.findings(result) if f["severity"] == "note"
    ]
