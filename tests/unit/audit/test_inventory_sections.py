"""Many nodes tell what they have by digests: real shell text, and whom an audit then asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from envmgr.audit.inventory.alike import ROWS
from envmgr.audit.inventory.sections import digests, filled, nodes_of, sections_of
from envmgr.audit.inventory.texts import asked_of, inventory_texts, kinds_part
from envmgr.probe.model import Fleet, Group
from envmgr.probe.shell import read_answer
from tests.helpers.evidence import audit_plan, site
from tests.helpers.inventory_texts import place, run_text

__all__ = ["place"]  # a fixture


def fleet(answers: dict[str, dict[str, str]]) -> Fleet:
    return Fleet(tuple(Group(facts, (node,)) for node, facts in answers.items()), {}, {}, ())


def told(**kinds: str) -> dict[str, str]:
    return {"inventory.digest": "\n".join(rf"{kind}\t{digest}" for kind, digest in kinds.items())}


def test_shell_text_tells_digests_and_only_kinds_that_are_asked_for(place: Path) -> None:
    plan = replace(audit_plan(site()), user="root", salt="salt", seconds=200)
    many = read_answer(run_text(inventory_texts(replace(plan, by_digest=True))["node"], "node", place, "sh"))[0]
    again = read_answer(run_text(kinds_part(["file", "sysctl"], plan).texts["node"], "node", place, "sh"))[0]
    assert {"file", "pkg", "sysctl"} <= digests(many).keys()
    assert digests(many).keys().isdisjoint(ROWS)
    assert [{*asked_of(of)(plan)} for of in (["sysctl"], ["env", "modfile"])] == [
        {"node"},
        {"node", "context", "login"},
    ]
    assert not {"inventory.file", "inventory.pkg"} & many.keys()
    assert {key for key in again if key.startswith("inventory.")} >= {
        "inventory.file",
        "inventory.sysctl",
        "inventory.digest",
    }
    assert "inventory.pkg" not in again
    assert {kind: digests(again)[kind] for kind in ("file", "sysctl")} == {
        kind: digests(many)[kind] for kind in ("file", "sysctl")
    }


def test_one_node_stands_for_all_with_its_digest() -> None:
    answers = {f"c{n}": told(file="1" if n < 9 else "2", pkg="a", lib="x" if n else "y") for n in range(10)}
    sections = sections_of(fleet(answers))
    assert {kind: {d: len(nodes) for d, nodes in of.items()} for kind, of in sections.items()} == {
        "file": {"1": 9, "2": 1},
        "lib": {"x": 9, "y": 1},
    }
    assert list(nodes_of(sections)) == ["c0", "c9"]
    asked = fleet(
        {
            "c0": {**told(file="1", lib="y"), "inventory.file": r"/etc/a\tA"},
            "c9": {**told(file="2", lib="z"), "inventory.file": r"/etc/a\tB", "inventory.lib": r"libx\t/x"},
        }
    )
    found, changed = filled(fleet(answers), sections, asked)
    files = {group.nodes[0]: group.facts["inventory.file"] for group in found.groups}
    assert files == {**{f"c{n}": r"/etc/a\tA" for n in range(9)}, "c9": r"/etc/a\tB"}
    assert found.groups[1].facts["inventory.lib"] == r"libx\t/x"
    assert changed == {"c9"}


def test_what_nobody_told_whole_is_compared_with_nothing() -> None:
    answers = {"c1": told(file="1"), "c2": told(file="2")}
    found, _ = filled(fleet(answers), sections_of(fleet(answers)), fleet({}))
    assert [group.facts["inventory.closed"].split() for group in found.groups] == [["file"], ["file"]]
