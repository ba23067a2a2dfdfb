"""Baselines: what nodes have, in a file that reads back the same, and what has changed since."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.audit.baseline import SCHEMA, Baseline, baseline_text, read_baseline
from envmgr.audit.inventory.differences import differences
from envmgr.audit.inventory.facts import NodeInventory, Place
from envmgr.errors import InputError
from envmgr.nodes.sets import fold
from tests.helpers.evidence import evidence
from tests.helpers.wording import pydantic_says

NONE: frozenset[Any] = frozenset()
Values = Mapping[tuple[str, str], str]


def place(told: Mapping[tuple[str, ...], Values], name: str = "nodes", closed: frozenset[str] = NONE) -> Place:
    """A place in which nodes have these values."""
    return Place(name, "", [(NodeInventory(values, closed, NONE, NONE), nodes) for nodes, values in told.items()])


def written(*places: Place) -> str:
    return baseline_text(places, lambda kind, _: kind != "room")


def read(text: str, folder: Path) -> Baseline:
    file = folder / "baseline.yaml"
    file.write_text(text)
    return read_baseline(file)


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.just("\n"), max_size=30)


@given(st.dictionaries(st.tuples(WORDS, WORDS), WORDS, min_size=1, max_size=5))
def test_what_is_written_is_read_back(values: dict[tuple[str, str], str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = read(written(place({("c1", "c2"): values})), Path(folder))
    kept = {at: value for at, value in values.items() if at[0] != "room"}
    assert {at: dict(had) for at, had in found.values.get("nodes", {}).items()} == {
        at: {"c1": value, "c2": value} for at, value in kept.items()
    }


def test_file_is_sorted_and_readable_and_leaves_out_what_is_drawn_anew() -> None:
    first = place({("c1", "c2"): {("file", "/z"): "1", ("env", "A"): "one 1\ntwo 2"}, ("c3",): {("file", "/z"): "2"}})
    _, _, text = written(first, place({("c1",): {("module", "a/1 load"): "loads"}}, name="")).partition("values:\n")
    assert text == (
        "  nodes:\n    env:\n      A:\n        c[1-2]: |-\n          one 1\n          two 2\n"
        "    file:\n      /z:\n        c3: '2'\n        c[1-2]: '1'\n"
    )


def findings(now: Mapping[str, str], had: Mapping[str, str], **more: Any) -> list[str]:
    """`NODES: VALUE, not RIGHT` of nodes that have now, and had, these values; `-` is not there."""
    told = {(node,): {("sysctl", "y"): "1"} | ({("sysctl", "x"): of} if of != "-" else {}) for node, of in now.items()}
    then = {
        ("sysctl", "x"): {node: value for node, value in had.items() if value != "-"},
        ("sysctl", "y"): dict.fromkeys(had, "1"),
    }
    given_to = evidence({}, baseline=Baseline(Path("b"), {"nodes": then}))
    found = differences([place(told, **more)], given_to)
    return [f"{fold(of.nodes)}: {of.value or '-'}, not {of.right or '-'}" for of in found]


def test_each_node_is_right_that_has_what_it_had() -> None:
    had = {"c1": "a", "c2": "a", "c3": "b", "c4": "-"}
    assert findings(had, had) == []
    assert findings(dict.fromkeys(had, "b"), had) == ["c[1-2]: b, not a", "c4: b, not -"]
    assert findings(dict.fromkeys(had, "-"), had) == ["c[1-2]: -, not a", "c3: -, not b"]


def test_new_node_is_compared_with_what_most_had() -> None:
    had = {"c1": "a", "c2": "a", "c3": "b"}
    assert findings({**had, "c4": "a"}, had) == []
    assert findings({**had, "c4": "b"}, had) == ["c4: b, not a"]


def test_what_was_not_looked_at_now_or_then_is_not_compared_with_the_baseline() -> None:
    assert findings({"c1": "a", "c2": "-"}, {"c1": "b", "c2": "b"}, closed=frozenset({"sysctl"})) == []
    assert findings({"c1": "a", "c2": "a"}, {"c1": "b", "c2": "b"}, name="bash-login (alice)") == []
    digests = {"c1": "~0123456789ab", "c2": "~0123456789ab"}  # good for one audit
    assert findings(digests, dict.fromkeys(digests, "1")) == []


@pytest.mark.parametrize(
    "text",
    ["- a list\n", f"schema: {SCHEMA}\nvalues: 3\n", f"schema: {SCHEMA}\nvalues: {{a: {{b: {{c: {{'c[1-': d}}}}}}}}\n"],
)
def test_file_that_is_no_baseline_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(text, tmp_path)
    assert caught.value.reference == "baseline-unreadable"


def test_link_to_a_file_in_a_checkout_is_read_and_a_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept.yaml").write_text(written(place({("c1",): {("file", "/a"): "1"}})))
    (tmp_path / "link.yaml").symlink_to("kept.yaml")
    assert read_baseline(tmp_path / "link.yaml").values == {"nodes": {("file", "/a"): {"c1": "1"}}}
    os.mkfifo(tmp_path / "pipe.yaml")
    for name, reference in (("pipe.yaml", "file-irregular"), ("gone.yaml", "file-missing")):
        with pytest.raises(InputError) as caught:
            read_baseline(tmp_path / name)
        assert caught.value.reference == reference


def test_missing_fields_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read(f"schema: {SCHEMA}\n", tmp_path)
    assert error.value.context == (f"values: {pydantic_says('missing')}",)


def test_kinds_that_are_not_asked_for_and_unknown_ones_of_a_baseline_are_compared_with_nothing(tmp_path: Path) -> None:
    now = place({("c1", "c2"): {("env", "A"): "1", ("file", "/etc/a"): "2"}})
    text = written(now).replace("    file:\n", "    nosuch:\n      x:\n        c[1-2]: '1'\n    file:\n")
    of = replace(evidence({"c1": {}, "c2": {}}), baseline=read(text, tmp_path))
    assert differences([now, now.only(["env"])], of) == ()
    assert [each.key for each in differences([place({("c1", "c2"): {("env", "A"): "2"}}).only(["env"])], of)] == ["A"]
