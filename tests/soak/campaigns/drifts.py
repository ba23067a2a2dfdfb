"""One to three drifts of chance under a whole audit, over ssh and in jobs: right, badly or missed; nodes that are hidden, and hints that harm.

A drift is one that a user notices, or one on fewer than half of the nodes: nobody could tell which are right. A set that leaves the
host that audits without an audit, or that a node refuses, is drawn again. Each fixed command of an error or warning is run as root. It
harms if it changes what was healthy, or if what it was said for is still told.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.helpers.audit_scene import Audited, make
from tests.helpers.cluster import ClusterError
from tests.helpers.drift_measure import Expected, judged, line, still_told
from tests.helpers.drift_places import Places, find
from tests.helpers.drifts import carry_out
from tests.helpers.put_and_back import RandomDrift
from tests.helpers.random_drifts import draw_some
from tests.helpers.states import State, differences, of_hint, state
from tests.helpers.trees import hand_written, plant, use
from tests.helpers.user_actions import Looks, look, noticed, steady

ROUNDS = 100
VIA = ("--via", "both")
_DRAWN = 30


@dataclass(frozen=True)
class Healthy:
    """What a cluster is without a drift: its files, what users get, and what an audit says."""

    scene: Audited
    places: Places
    files: State
    looks: Looks
    unsteady: frozenset[str]
    lines: frozenset[str]

    def noticed(self) -> dict[str, tuple[str, ...]]:
        return noticed(self.looks, look(self.scene.cluster), self.unsteady)

    def resume(self) -> None:
        """Let Slurm use the nodes again that jobs have drained, as an administrator does once the cause is gone."""
        cluster = self.scene.cluster
        cluster.sh("login", f"scontrol update nodename={','.join(cluster.compute)} state=resume")
        cluster.wait_idle()

    def left(self) -> list[str]:
        """What files, folders and mounts are not as before."""
        self.resume()
        return differences(self.files, state(self.scene.cluster))


Round = Callable[[Healthy], tuple[Counter[str], list[str], list[str]]]
"""What is counted, what is told besides, and what is not as before."""


def play(seed: int, first: int, last: int) -> Iterator[str]:
    yield from played(
        (f"drifts {first} to {number}", partial(_round, random.Random(f"{seed} {number}")))
        for number in range(first, last + 1)
    )


def played(rounds: Iterable[tuple[str, Round]]) -> Iterator[str]:
    """Yield what each round told, and all counts so far. A cluster on which something is left behind is made anew."""
    count: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, ExitStack() as clusters:
        healthy = None
        for number, (name, play_it) in enumerate(rounds):
            healthy = healthy or _healthy(Path(folder) / f"lab{number}", clusters)
            said, told, left = play_it(healthy)
            count.update(said)
            if left:
                told.append(f"left behind, the cluster is made anew: {', '.join(left[:6])}")
                healthy.scene.cluster.down()
                healthy = None
            yield "\n    ".join([_words(said), *told, f"{name}: {_words(count)}"])


def _words(count: Counter[str]) -> str:
    return ", ".join(f"{what} {count[what]}" for what in ("right", "badly", "missed", "hidden nodes", "harming hints"))


def _healthy(folder: Path, clusters: ExitStack) -> Healthy:
    scene = make(folder, "nfs")
    cluster = scene.cluster
    clusters.callback(cluster.down)
    nodes, tree = ("login", *cluster.compute), hand_written("/opt/local-apps")
    for node in nodes:
        plant(tree, cluster, node)
    use(tree.folder, cluster, nodes)
    places, looks = find(cluster), look(cluster)
    unsteady = steady(looks, look(cluster), look(cluster))
    lines = frozenset(line(finding) for finding in scene.audit(*VIA)["findings"])
    return Healthy(scene, places, state(cluster), looks, unsteady, lines)


def _round(chance: random.Random, healthy: Healthy) -> tuple[Counter[str], list[str], list[str]]:
    """What is counted, what is told besides, and what is not as before."""
    cluster = healthy.scene.cluster
    said: Counter[str] = Counter()
    told: list[str] = []
    for _ in range(_DRAWN):
        drifts = draw_some(chance, healthy.places, cluster.compute)
        try:
            with ExitStack() as back:
                put = _put(drifts, healthy, back)
                result = healthy.scene.audit(*VIA) if put else {}
                if "causes" in result:
                    said, told = measured(put, result, healthy)
                    told[:0] = [
                        f"{len(of.harmed)} nodes harmed by {one.kind}" for one, of in zip(drifts, put, strict=True)
                    ]
        except (ClusterError, json.JSONDecodeError):  # refused, or no audit on a host that lost so much
            put = []
        except subprocess.TimeoutExpired:
            put, said, told = [], Counter(badly=1), ["the audit does not end"]
        try:
            left = healthy.left() or [*map(str, healthy.noticed().items())]
        except OSError as error:  # a node has ended
            left = [str(error)]
        if said or left:
            return said, [*map(str, drifts), *told], left
    raise AssertionError(f"nothing could be put in {_DRAWN} draws")


def _put(drifts: list[RandomDrift], healthy: Healthy, back: ExitStack) -> list[Expected]:
    """Put them; none where one could not be told apart from what is right."""
    found, before = [], healthy.looks
    for drift in drifts:
        back.enter_context(drift.put(healthy.scene.cluster))
        after = look(healthy.scene.cluster)
        harmed, nodes = noticed(before, after, healthy.unsteady), frozenset(drift.nodes)
        compute = nodes - {"login"}
        if not harmed and 2 * len(compute) >= len(healthy.scene.cluster.compute):
            return []
        also = frozenset({"login"} if compute == {*healthy.scene.cluster.compute} else ())
        found.append(Expected(drift.names, nodes, (nodes & harmed.keys() or nodes) if harmed else frozenset(), also))
        before = after
    return found


def measured(put: list[Expected], result: dict[str, Any], healthy: Healthy) -> tuple[Counter[str], list[str]]:
    """What a report counts, and what is told of it; its fixed commands are run."""
    verdict = judged(result, put, healthy.lines)
    causes = [c for c in result["causes"] if line(c) not in healthy.lines]
    told = [f"{verdict.said}: {why}" for why in verdict.why] + [f"cause: {line(cause)}" for cause in causes]
    told += [f"hidden: {node}" for node in verdict.hidden]
    # First what Slurm does not use: a look resumes nodes, and that fails where they are resumed already.
    first = sorted(causes, key=lambda cause: "scontrol" not in str(cause["actions"]))
    harms = [harm for cause in first for harm in _harms(cause, put, healthy)]
    said = Counter({verdict.said: 1, "hidden nodes": len(verdict.hidden), "harming hints": len(harms)})
    return said, [*told, *harms]


def _harms(cause: dict[str, Any], put: Collection[Expected], healthy: Healthy) -> list[str]:
    """Run the fixed commands of a cause; what they harm."""
    steps = [step for step in cause["actions"] if step["do"] == "run"]
    if not steps or cause["severity"] == "note":
        return []
    cluster = healthy.scene.cluster
    drifted, looked = state(cluster), look(cluster)
    said = "; ".join(step["command"] for step in steps)
    if re.search(r"remount\S*\bro\b", said):  # on this machine's own file system
        return [f"harm: `{said}` is not run"]
    try:
        for step in steps:
            carry_out(step, cluster)
        healthy.resume()
    except (AssertionError, ClusterError, subprocess.TimeoutExpired) as error:
        return [f"harm: `{said}` fails: {str(error)[-200:]}"]
    harmed, _ = of_hint(healthy.files, drifted, state(cluster))
    was, now = (noticed(healthy.looks, looks, healthy.unsteady) for looks in (looked, look(cluster)))
    broke = [f"{action} on {node}" for node, of in now.items() for action in of if action not in was.get(node, ())]
    again = healthy.scene.audit(*VIA)
    still = [words for of in put if of.is_named(cause) for words in still_told(of, cause, again, healthy.lines)]
    return [
        f"harm: `{said}` {what}"
        for what in (*harmed, *(f"breaks {each}" for each in broke), *(f"leaves {each}" for each in still))
    ][:1]
