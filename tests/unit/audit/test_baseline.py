"""Baselines: what an audit compared, in a file that reads back the same, and what has changed since."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.audit.baseline import SCHEMA, Baseline, Compared, HowAsked, Notebook, baseline_text, read_baseline
from envmgr.audit.checks import get_check
from envmgr.errors import InputError
from tests.helpers.evidence import comparing, drifts, evidence, judgement
from tests.helpers.wording import pydantic_says

ASKED = HowAsked(nodes="c[1-3]", user="alice", shells=("bash-login (alice)",), checks=("x",))


def noted(pages: Mapping[Compared, Mapping[str, tuple[str, ...]]]) -> Notebook:
    notebook = Notebook()
    for compared, values in pages.items():
        notebook.note(compared, values)
    return notebook


def read(text: str, folder: Path) -> Baseline:
    file = folder / "baseline.yaml"
    file.write_text(text)
    return read_baseline(file)


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.just("\n"), max_size=30)


@given(st.dictionaries(st.tuples(WORDS, WORDS, WORDS).map(lambda t: Compared(*t)), WORDS.filter(bool), max_size=5))
def test_what_is_written_is_read_back(values: dict[Compared, str]) -> None:
    text = baseline_text(noted({compared: {value: ("c1", "c2", "c3")} for compared, value in values.items()}), ASKED)
    with tempfile.TemporaryDirectory() as folder:
        found = read(text, Path(folder))
    assert found.asked == ASKED
    known = {compared: value for compared, value in values.items() if compared.what != "value"}
    assert {c: dict(v) for c, v in found.values.items() if c.what != ""} == {
        compared: dict.fromkeys(("c1", "c2", "c3"), value) for compared, value in known.items() if compared.what != ""
    }


def test_file_is_sorted_and_readable_and_leaves_out_what_is_set_nowhere() -> None:
    pages = {
        Compared("z", "there", ""): {"2": ("c3",), "1": ("c1", "c2")},
        Compared("a", "here", "list"): {"one 1\ntwo 2": ("c1", "c2", "c3")},
        Compared("a", "here", "nothing"): {"": ("c1", "c2", "c3")},
    }
    _, _, text = baseline_text(noted(pages), ASKED).partition("values:\n")
    assert text == (
        "  a:\n    here:\n      list:\n        c[1-3]: |-\n          one 1\n          two 2\n"
        "  z:\n    there:\n      value:\n        c3: '2'\n        c[1-2]: '1'\n"
    )
    assert baseline_text(noted(dict(reversed(pages.items()))), ASKED) == baseline_text(noted(pages), ASKED)


def findings(values: Mapping[str, tuple[str, ...]], had: Mapping[str, str] | None) -> list[tuple[str, str, str]]:
    """(nodes, found, expected) with a baseline in which the nodes had that."""
    known = {} if had is None else {Compared("x", "here", ""): had}
    given_to = evidence({}, baseline=Baseline(Path("b"), ASKED, known))
    return [(f.nodes, f.found, f.expected) for f in drifts(values, given_to)]


def test_each_node_is_right_that_has_what_it_had() -> None:
    had = {"c1": "a", "c2": "a", "c3": "b"}
    assert findings({"a": ("c1", "c2"), "b": ("c3",)}, had) == []
    assert findings({"b": ("c1", "c2", "c3")}, had) == [("c[1-2]", "b", "a, as in the baseline")]
    assert findings({"a": ("c1", "c2", "c3")}, had) == [("c3", "a", "b, as in the baseline")]


def test_new_node_is_compared_with_what_most_had_and_new_things_with_nothing() -> None:
    had = {"c1": "a", "c2": "a", "c3": "b"}
    assert findings({"a": ("c1", "c2", "c4"), "b": ("c3",)}, had) == []
    assert findings({"a": ("c1", "c2"), "b": ("c3", "c4")}, had) == [("c4", "b", "a, as in the baseline")]
    assert findings({"a": ("c1", "c2", "c3")}, None) == [("c[1-3]", "a", "nothing, as in the baseline")]
    assert findings({"": ("c1", "c2", "c3")}, None) == []


def test_what_is_gone_is_told_of_what_was_asked_for_again() -> None:
    had = {
        Compared("nodes", "/apps", "content"): {"c1": "a", "c2": "a", "c9": "a"},
        Compared("nodes", "zsh (alice)", "PATH"): {"c1": "a"},
        Compared("other", "/apps", ""): {"c1": "a"},
    }
    asked = HowAsked(
        nodes="c[1-2]", user="alice", shells=("bash-login (alice)", "zsh (root)"), checks=("nodes", "other")
    )
    given_to = evidence({"c1": {"gate": "ok"}, "c2": {"gate": "ok"}}, baseline=Baseline(Path("b"), asked, had))
    gone = [
        (f.where, f.found, f.nodes)
        for f in judgement(given_to, {"nodes": get_check("nodes")}).findings
        if "gone" in f.found
    ]
    assert gone == [("/apps", "content is gone", "c[1-2]")]


@pytest.mark.parametrize(
    "text",
    [
        "- a list\n",
        "schema: envmgr.baseline/1\nvalues: 3\n",
        "schema: envmgr.baseline/1\nasked: {nodes: c1, user: a, shells: [], checks: []}\nvalues: {a: {b: {c: {'c[1-': d}}}}\n",
    ],
)
def test_file_that_is_no_baseline_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(text, tmp_path)
    assert caught.value.reference == "baseline-unreadable"


def test_link_to_a_file_in_a_checkout_is_read_and_a_pipe_is_refused(tmp_path: Path) -> None:
    text = baseline_text(noted({Compared("x", "here", ""): {"a": ("c1",)}}), ASKED)
    (tmp_path / "kept.yaml").write_text(text)
    (tmp_path / "link.yaml").symlink_to("kept.yaml")
    assert read_baseline(tmp_path / "link.yaml").values == {Compared("x", "here", ""): {"c1": "a"}}
    os.mkfifo(tmp_path / "pipe.yaml")
    for name, reference in (("pipe.yaml", "file-irregular"), ("gone.yaml", "file-missing")):
        with pytest.raises(InputError) as caught:
            read_baseline(tmp_path / name)
        assert caught.value.reference == reference


def test_what_is_not_compared_in_every_audit_is_not_kept() -> None:
    def noted_of(*, kept: bool) -> set[Compared]:
        return {*judgement(evidence({}), {"x": comparing({"a": ("c1",)}, kept=kept)}).notebook.pages}

    assert noted_of(kept=False) == set()
    assert noted_of(kept=True) == {Compared("x", "here", "")}


def test_what_depends_on_who_looks_is_not_compared_with_another_users() -> None:
    kept = Compared("x", "/apps", "closed")
    asked = HowAsked(nodes="c[1-3]", user="bob", shells=(), checks=("x", "y"), of_user=("x",))
    assert not asked.has(kept, "alice")
    assert asked.has(kept, "bob")
    assert asked.has(Compared("y", "/apps", ""), "alice")  # of the nodes
    assert not asked.has(Compared("y", "user bob", "groups"), "alice")
    assert not asked.has(Compared("y", "user alice", "groups"), "alice")  # nobody looked at her then


def test_missing_fields_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read(f"schema: {SCHEMA}\n", tmp_path)
    assert error.value.context == (f"asked: {pydantic_says('missing')}", f"values: {pydantic_says('missing')}")
