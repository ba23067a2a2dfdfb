"""Each drift of tests/cluster/audit/drifts.yaml under a whole audit, over ssh and in jobs: told, mended by its hint, undone.

A program carries out what the hints of the audit say. Counted is what was found, what was rightly reported (the first cause of
the audit is the drift, with the right hint), and what an acting hint mended: the next audit has no error and no warning. Nothing is told any more
once a drift is undone.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.audit_scene import Audited, make
from tests.helpers.drifts import Drift, all_drifts, follow_all

ROUNDS = len(all_drifts())


def play(seed: int, first: int, last: int) -> Iterator[str]:
    count: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        scene = make(Path(folder) / "lab", "nfs")
        try:
            for drift in all_drifts()[first - 1 : last]:
                scene.cluster.wait_idle()
                said = rated(drift, scene)
                count.update(said)
                assert scene.audit("--via", "both", code=0)["findings"] == [], drift.name
                yield f"{drift.name}: {', '.join(f'{number} {what}' for what, number in said.items())}"
        finally:
            scene.cluster.down()
    drifts, acting = last - first + 1, count["with an acting hint"]
    yield (
        f"found {count['found']} of {drifts}, rightly reported {count['rightly reported']}, "
        f"fixed {count['fixed']} of {acting} with an acting hint, {count['causes'] / drifts:.2f} causes a drift"
    )


def rated(drift: Drift, scene: Audited) -> Counter[str]:
    """What an audit makes of a drift."""
    said: Counter[str] = Counter()
    with drift.put(scene.cluster):
        result = scene.audit("--via", "both")
        note = all(of["severity"] == "note" for of in drift.told)
        causes = [cause for cause in result["causes"] if note or cause["severity"] != "note"]
        said["causes"] = len(causes)
        kinds = {of["found"] for of in drift.told}  # of one kind there may be one for each kind of shell
        said["found"] = int(len({f["found"] for f in drift.findings(result, worse=True)}) == len(kinds))
        said["rightly reported"] = int(
            bool(causes)
            and bool(drift.findings({"findings": [causes[0], *causes[0]["consequences"]]}, worse=True))
            and drift.hint in causes[0]["hint"]
        )
        acting = [cause for cause in causes if any(step["do"] != "look" for step in cause["actions"])]
        if acting:
            said["with an acting hint"] = 1
            follow_all(acting, scene.cluster)
            scene.cluster.wait_idle()
            left = scene.audit("--via", "both")["findings"]
            said["fixed"] = int(
                all(finding["severity"] == "note" for finding in left)
            )  # a comment beside the line stays
    return said
