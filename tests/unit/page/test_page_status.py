"""`status.json`: only what was seen, by group and by install."""

from __future__ import annotations

from envmgr.catalog.fitness import NodeFacts, NodeNeeds, gpu_needs
from envmgr.catalog.gpus import Gpu
from envmgr.catalog.recipe_parts import Requires
from envmgr.page.status import GroupVerdict, LastTest, Status, make_status
from envmgr.store.node_facts import FleetFacts, SeenNodes
from envmgr.store.node_tests import NodeTests, SeenTest

OLD = NodeFacts(
    driver="450.1", gpus=(Gpu(vendor="nvidia", arch="8.0", name="A100", driver="450.1"),), library="450.1", glibc="2.28"
)
PLAIN = NodeFacts(glibc="2.17")
AT = "1970-01-01T00:01:40Z"
NEEDS = {
    "gpu/1": NodeNeeds(Requires(), gpu_needs(Requires(nvidia_driver="530"))),
    "plain/1": NodeNeeds(Requires(glibc="2.28"), None),
}


def status(fleet: FleetFacts | None, tests: NodeTests | None = None) -> Status:
    return make_status(7, NEEDS, dict.fromkeys(NEEDS, "d"), fleet, tests or NodeTests(), 1000.0)


def test_verdicts_are_told_by_group_and_nodes_that_nobody_saw_as_such() -> None:
    fleet = FleetFacts(
        groups={"gpu": ("g1", "g2", "g3"), "cpu": ("c1",)},
        seen=(
            SeenNodes(nodes=("g1", "g2"), time=100.0, facts=OLD),
            SeenNodes(nodes=("c1", "x9"), time=100.0, facts=PLAIN),
        ),
    )
    found = status(fleet)
    unseen = GroupVerdict(group="gpu", nodes="g3", verdict="not seen", reason="no audit has looked at it", seen="")
    assert found.entries["gpu/1"].gate == (
        GroupVerdict(group="gpu", nodes="g[1-2]", verdict="too-old", reason="driver 450.1 is older than 530", seen=AT),
        unseen,
        GroupVerdict(group="cpu", nodes="c1", verdict="no-gpu", reason="no GPU", seen=AT),
        GroupVerdict(group="in no group", nodes="x9", verdict="no-gpu", reason="no GPU", seen=AT),
    )
    assert found.entries["plain/1"].gate[0] == GroupVerdict(
        group="gpu", nodes="g[1-2]", verdict="fits", reason="", seen=AT
    )
    assert found.entries["plain/1"].gate[2] == GroupVerdict(group="cpu", nodes="c1", verdict="does not fit", reason="glibc 2.17 is older than 2.28", seen=AT)  # fmt: skip
    assert Status.model_validate_json(found.model_dump_json()) == found


def test_before_an_audit_and_a_test_there_is_nothing_to_tell() -> None:
    found = status(None)
    assert (found.generation, found.written) == (7, "1970-01-01T00:16:40Z")
    assert [(each.digest, each.gate, each.tests) for each in found.entries.values()] == [("d", (), ())] * 2


def test_the_last_ends_of_tests_are_told() -> None:
    seen = SeenTest(entry="plain/1", test="runs", status="failed", nodes=("c2", "c1"), time=100.0)
    gone = seen.model_copy(update={"entry": "gone/1"})
    found = status(None, NodeTests(tests=(seen, gone)))
    assert found.entries["plain/1"].tests == (LastTest(test="runs", nodes="c[1-2]", status="failed", time=AT),)
    assert "gone/1" not in found.entries


def test_tests_of_an_install_stay_until_they_run_again_or_it_changes() -> None:
    first = SeenTest(entry="plain/1", test="runs", status="failed", nodes=("c1", "c2"), time=50.0)
    again = SeenTest(entry="plain/1", test="runs", status="passed", nodes=("c2", "c3"), time=100.0)
    before = status(None, NodeTests(tests=(first,)))
    digests = dict.fromkeys(NEEDS, "d")
    found = make_status(8, NEEDS, digests, None, NodeTests(tests=(again,)), 1000.0, before)
    old = LastTest(test="runs", nodes="c1", status="failed", time="1970-01-01T00:00:50Z")
    assert found.entries["plain/1"].tests == (old, LastTest(test="runs", nodes="c[2-3]", status="passed", time=AT))
    assert make_status(9, NEEDS, digests, None, NodeTests(), 1000.0, found).entries == found.entries
    changed = make_status(9, NEEDS, {**digests, "plain/1": "e"}, None, NodeTests(), 1000.0, found)
    assert changed.entries["plain/1"].tests == ()
