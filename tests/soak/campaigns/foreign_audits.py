"""A healthy cluster without envmgr, with each kind of trees in turn: every audit says nothing but notes, and leaves nothing behind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.helpers.foreign_scene import KINDS, make
from tests.helpers.traces import traces
from tests.helpers.waiting import soon

ROUNDS = 80


def play(seed: int, first: int, last: int) -> Iterator[str]:
    each = ROUNDS // len(KINDS)
    for number, kind in enumerate(KINDS):
        rounds = [n for n in range(first, last + 1) if (n - 1) // each == number]
        if rounds:
            yield from _of_kind(kind, rounds)


def _of_kind(kind: str, rounds: Sequence[int]) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        scene = make(Path(folder) / "lab", (kind,))
        try:
            before = traces(scene.cluster)
            for number in rounds:
                via = ("ssh", "slurm", "both")[number % 3]
                result = scene.audit("--via", via, code=0)
                assert [f for f in result["findings"] if f["severity"] != "note"] == []
                assert soon(lambda: traces(scene.cluster) == before), traces(scene.cluster) - before
                yield f"{kind}, {via}: {result['seconds']:.1f} s"
        finally:
            scene.cluster.down()
