"""`--format deepops` against the contract of DeepOps's validators, as its docs/deepops/validation.md tells it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.audit.findings import Caused as Finding
from envmgr.audit.result import AuditResult, WayAnswers
from envmgr.errors import Bug, EnvmgrError
from tests.helpers.exposition import WELL, text

MOUNT = Finding("mount", "error", "/sw", "not mounted", "mounted from fs1:/export", "`mount /sw`", "c[2-3]")
DRIFT = Finding("contexts", "warning", "bash-login", "MODULEPATH differs", between="c1,c2")
OLDER = Finding("mount", "note", "/sw", "an older generation", nodes="c[1-3]")
ILL = replace(
    WELL,
    nodes="c[1-4]",
    count=4,
    asked=(WayAnswers("ssh", "c[1-3]", "c4", ""), WayAnswers("slurm", "c[1,4]", "", "c2")),
    findings=(MOUNT, DRIFT, OLDER),
)
GROUPS = EnvmgrError("groups-unreadable", "`sinfo` fails", context=["no such program", "in PATH"], hint="install it")

# What every validator has, and names of validate_slurm.py that say the same here: their types there.
VALIDATORS = {
    "ok": bool,
    "failures": list,
    "nodes_total": int,
    "nodes_available": int,
    "nodes_unavailable": int,
    "nodes": list,
}


def verdict(answer: AuditResult | EnvmgrError) -> dict[str, Any]:
    """What a reader of the contract reads: one object, a verdict that agrees with the list, sentences in it."""
    document = text(answer, "deepops")
    found: dict[str, Any] = json.loads(document)
    assert document == json.dumps(found, indent=2, sort_keys=True) + "\n"
    assert {name: type(found[name]) for name in VALIDATORS} == VALIDATORS
    assert found["ok"] == (not found["failures"])
    assert all(isinstance(failure, str) and "\n" not in failure for failure in found["failures"])
    assert found["nodes_available"] + found["nodes_unavailable"] == found["nodes_total"] == len(found["nodes"])
    assert [node["name"] for node in found["nodes"]] == sorted(node["name"] for node in found["nodes"])
    assert {type(value) for key, value in found.items() if key != "nodes"} <= {bool, int, list, type(None)}  # flat
    return found


def test_a_good_audit_is_ok_and_has_no_failures() -> None:
    assert verdict(WELL) == {
        "ok": True,
        "failures": [],
        "checks": ["mount", "nodes"],
        "notes": 0,
        "nodes": [{"name": name, "state": "answered", "failures": 0} for name in ("c1", "c2", "c3")],
        "nodes_total": 3,
        "nodes_available": 3,
        "nodes_unavailable": 0,
        "published_generation": 12,
        "published_entries": 2,
    }


def test_errors_and_warnings_are_failures_that_say_what_to_do_and_notes_are_none() -> None:
    found = verdict(ILL)
    assert found["failures"] == [
        "error[mount] c[2-3]: /sw: not mounted; expected: mounted from fs1:/export; hint: `mount /sw`",
        "warning[contexts] c1,c2 differ: bash-login: MODULEPATH differs",
    ]
    assert found["notes"] == 1
    assert verdict(replace(ILL, findings=(OLDER,)))["ok"]


def test_a_node_has_the_worst_state_of_all_ways_in_which_it_was_asked() -> None:
    found = verdict(ILL)
    assert {node["name"]: (node["state"], node["failures"]) for node in found["nodes"]} == {
        "c1": ("answered", 0),
        "c2": ("unreachable", 1),
        "c3": ("answered", 1),
        "c4": ("silent", 0),
    }
    assert (found["nodes_total"], found["nodes_available"], found["nodes_unavailable"]) == (4, 2, 2)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (replace(WELL, generation=None, entries=()), "this host cannot read the published generation"),
        (replace(WELL, asked=(WayAnswers("ssh", "", "c[1-3]", ""),)), "no node answered"),
    ],
)
def test_an_audit_that_could_compare_nothing_is_not_ok(result: AuditResult, why: str) -> None:
    assert result.exit_code == 3
    assert verdict(result)["failures"] == [why]


@pytest.mark.parametrize("result", [WELL, ILL, replace(ILL, findings=(OLDER,)), replace(WELL, generation=None)])
def test_the_verdict_is_the_exit_code(result: AuditResult) -> None:
    assert verdict(result)["ok"] == (result.exit_code == 0)


def test_a_failure_is_the_one_entry_and_every_field_is_there() -> None:
    found = verdict(GROUPS)
    assert found["failures"] == ["error[groups-unreadable]: `sinfo` fails; no such program; in PATH; hint: install it"]
    assert found.keys() == verdict(WELL).keys()
    assert found["published_generation"] is None
    assert not verdict(Bug("oh", hint="report it"))["ok"]


@given(st.text(st.characters()), st.text(st.characters()))
def test_it_is_one_line_a_failure_in_ascii_whatever_nodes_say(where: str, said: str) -> None:
    answer = replace(WELL, findings=(Finding("mount", "error", where, said, nodes="c1"),))
    assert text(answer, "deepops").isascii()
    assert len(verdict(answer)["failures"]) == 1
