"""The audit's check of generations: a prefix that was moved, whose modules lead to where it was made."""

from __future__ import annotations

from envmgr.audit.checks import generation
from envmgr.catalog.recipe_parts import Requires
from tests.helpers.evidence import SHA, evidence, told

NODE = {"current": "generations/0001", "generation.record": SHA}
ENTRIES = {"a/1": Requires(), "b/2": Requires()}


def test_moved_prefix_is_told_once_with_the_way_back() -> None:
    assert told(generation, evidence({"c1": NODE}, entries=ENTRIES)) == []
    assert told(
        generation, evidence({"c1": NODE, "c2": NODE}, entries=ENTRIES, settings={"prefix": "/net/fs1/sw"})
    ) == [
        (
            "error c[1-2]: /net/fs1/sw: the prefix was made for /sw, and its modules lead there | /sw in site.yaml, and on every node | "
            "mount, link or move it to /sw, and set `prefix: /sw` in site.yaml"
        )
    ]


def test_prefix_that_a_link_or_a_mount_leads_to_is_told_where_none_does() -> None:
    nodes = {"c1": {**NODE, "generation.there": "yes"}, "c2": {**NODE, "generation.there": "no"}}
    found = told(generation, evidence(nodes, entries=ENTRIES, settings={"prefix": "/net/fs1/sw"}))
    assert [line.split(":")[0] for line in found] == ["error c2"]
