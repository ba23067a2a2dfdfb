"""Kinds of hardware on a cluster without a site file: what each kind has is no fault of the other."""

from __future__ import annotations

from envmgr.audit.fit.matrix import groups_by_kind
from envmgr.audit.model import Evidence
from tests.helpers.evidence import evidence
from tests.helpers.hardware import NODE, driven

PLAIN, GPU = NODE, driven("535.54.03", "nvidia 8.0 {} NVIDIA A100")


def of(plain: int, gpus: int, *, alone: bool = True) -> Evidence:
    nodes = {f"c{n}": PLAIN for n in range(1, plain + 1)} | {f"g{n}": GPU for n in range(1, gpus + 1)}
    return evidence(nodes, alone=alone)


def test_nodes_of_like_hardware_are_a_kind() -> None:
    kinds = groups_by_kind(of(3, 4))
    assert sorted(map(len, kinds.values())) == [3, 4]
    assert any("A100" in name for name in kinds)
    assert groups_by_kind(of(3, 2)) == {}
    assert groups_by_kind(of(3, 4, alone=False)) == {}  # of a site, which says what its groups are


def test_one_node_of_a_kind_is_like_the_most() -> None:
    three = evidence(
        {"x1": NODE | {"fitness.flags": ""}}
        | dict.fromkeys(("c1", "c2", "c3"), PLAIN)
        | dict.fromkeys(("g1", "g2", "g3"), GPU),
        alone=True,
    )
    assert {frozenset(nodes) for nodes in groups_by_kind(three).values()} == {
        frozenset({"c1", "c2", "c3", "x1"}),
        frozenset({"g1", "g2", "g3"}),
    }
