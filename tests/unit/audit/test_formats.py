from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.audit.findings import Caused as Finding
from envmgr.audit.formats.prometheus import exposition
from envmgr.audit.metrics import MOST_NODES
from envmgr.audit.result import AuditResult, ExplainResult, WayAnswers
from envmgr.cli.render import write_report
from envmgr.errors import Bug, EnvmgrError, Interrupted
from envmgr.nodes.sets import fold
from tests.helpers.exposition import WELL, of, parse, text

MOUNT = Finding("mount", "error", "/sw", "not mounted", "mounted from fs1:/export", "`mount /sw`", "c[2-3]")
SLOW = Finding("mount", "warning", "/sw", "answers in 2.0 s", nodes="c2")
SILENT = Finding("nodes", "error", "ssh", "silent: no answer", "an answer", "try `ssh c4 true`", "c4")
OLDER = Finding("mount", "note", "/sw", "an older generation", nodes="c[1-3]")
HERE = Finding("generation", "error", "/sw", "this host cannot read the published generation")
ILL = replace(
    WELL,
    nodes="c[1-4]",
    count=4,
    asked=(WayAnswers("ssh", "c[1-3]", "c4", ""), WayAnswers("slurm", "c1", "", "c[2-4]")),
    findings=(MOUNT, SILENT, SLOW, OLDER),
)
GROUPS = EnvmgrError("groups-unreadable", "`sinfo` does not say which nodes there are", context="no program", hint="x")


# -- prometheus ----------------------------------------------------------------------------------------------------------


def test_a_good_audit_says_so_with_zeros() -> None:
    series = parse(text(WELL, "prometheus"))
    none = frozenset[tuple[str, str]]()
    severities = ("error", "warning", "note")
    zeros = {frozenset({("check", c), ("severity", s)}): 0.0 for c in ("mount", "nodes") for s in severities}
    assert series == {
        "envmgr_audit_timestamp_seconds": {none: 1_700_000_000.124},
        "envmgr_audit_success": {none: 1},
        "envmgr_audit_duration_seconds": {none: 2.5},
        "envmgr_audit_nodes": {
            frozenset({("way", "ssh"), ("status", status)}): number
            for status, number in (("answered", 3), ("silent", 0), ("unreachable", 0))
        },
        "envmgr_audit_findings": zeros,
        "envmgr_audit_affected_nodes": zeros,
        "envmgr_audit_node_findings_omitted_nodes": {none: 0},
        "envmgr_published_generation": {none: 12},
        "envmgr_published_entries": {none: 2},
    }


def test_findings_are_counted_by_check_and_by_node() -> None:
    series = parse(text(ILL, "prometheus"))
    assert of(series, "envmgr_audit_success") == 1
    assert of(series, "envmgr_audit_nodes", way="ssh", status="silent") == 1
    assert of(series, "envmgr_audit_nodes", way="slurm", status="answered") == 1
    assert of(series, "envmgr_audit_nodes", way="slurm", status="unreachable") == 3
    assert of(series, "envmgr_audit_findings", check="mount", severity="error") == 1
    assert of(series, "envmgr_audit_affected_nodes", check="mount", severity="error") == 2
    assert of(series, "envmgr_audit_affected_nodes", check="mount", severity="note") == 3
    by_node = {
        tuple(dict(labels)[k] for k in ("node", "check", "severity")) for labels in series["envmgr_audit_node_findings"]
    }
    assert by_node == {
        ("c2", "mount", "error"),
        ("c3", "mount", "error"),
        ("c4", "nodes", "error"),
        ("c2", "mount", "warning"),
        ("c1", "mount", "note"),
        ("c2", "mount", "note"),
        ("c3", "mount", "note"),
    }


def test_a_finding_of_this_host_and_of_a_check_that_was_not_chosen_is_counted() -> None:
    series = parse(text(replace(WELL, findings=(HERE,), generation=None, entries=()), "prometheus"))
    assert of(series, "envmgr_audit_findings", check="generation", severity="error") == 1
    assert of(series, "envmgr_audit_affected_nodes", check="generation", severity="error") == 0
    assert "envmgr_audit_node_findings" not in series
    assert "envmgr_published_generation" not in series
    assert "envmgr_published_entries" not in series


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (replace(WELL, generation=None), "no-published-generation"),
        (replace(WELL, asked=(WayAnswers("ssh", "", "c1", "c[2-3]"),)), "no-node-answered"),
    ],
)
def test_an_audit_that_could_not_compare_is_no_success(result: AuditResult, reason: str) -> None:
    assert result.exit_code == 3
    series = parse(text(result, "prometheus"))
    assert of(series, "envmgr_audit_success") == 0
    assert of(series, "envmgr_audit_error_info", reference=reason) == 1


def test_a_failure_says_when_and_why_and_no_more() -> None:
    none = frozenset[tuple[str, str]]()
    assert parse(text(GROUPS, "prometheus", now=1_700_000_000.5)) == {
        "envmgr_audit_timestamp_seconds": {none: 1_700_000_000.5},
        "envmgr_audit_success": {none: 0},
        "envmgr_audit_error_info": {frozenset({("reference", "groups-unreadable")}): 1},
    }


def test_a_broken_fleet_has_a_bounded_number_of_series_the_worst_nodes_first() -> None:
    nodes = [f"n{i}" for i in range(3000)]
    findings = (
        Finding("mount", "error", "/sw", "hung", nodes=fold(nodes[2990:])),
        Finding("mount", "warning", "/sw", "slow", nodes=fold(nodes)),
    )
    series = parse(text(replace(WELL, nodes=fold(nodes), findings=findings), "prometheus"))
    told = {dict(labels)["node"] for labels in series["envmgr_audit_node_findings"]}
    assert len(told) == MOST_NODES
    assert told >= set(nodes[2990:])
    assert of(series, "envmgr_audit_node_findings_omitted_nodes") == 3000 - MOST_NODES
    assert of(series, "envmgr_audit_affected_nodes", check="mount", severity="warning") == 3000


@given(st.dictionaries(st.text(), st.integers(-1000, 1000), min_size=1, max_size=4))
def test_any_label_value_comes_back(values: dict[str, int]) -> None:
    name = "envmgr_audit_error_info"
    back = parse(exposition((name, {"reference": value}, number) for value, number in values.items()))[name]
    assert {dict(labels)["reference"]: number for labels, number in back.items()} == values


# -- junit ---------------------------------------------------------------------------------------------------------------

# element -> (attributes that it must have, may have, elements inside). Source: junit-10.xsd of jenkinsci/xunit-plugin.
SCHEMA: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": ({"name"}, {"time", "classname", "group"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def suites(document: str) -> dict[str, ET.Element]:
    """The suites of a document that keeps to the schema, and whose sums are right."""
    root = ET.fromstring(document)
    assert root.tag == "testsuites"
    for element in root.iter():
        must, may, inside = SCHEMA[element.tag]
        assert must <= set(element.keys()) <= must | may, element.tag
        assert {child.tag for child in element} <= inside, element.tag
        if element.get("time") is not None:
            assert re.fullmatch(r"[0-9]{0,3}(\.[0-9]*)?", element.attrib["time"])
    for element in (root, *root):
        kinds = {"tests": "testcase", "failures": "failure", "errors": "error"}
        assert {k: int(element.attrib[k]) for k in kinds} == {k: len(list(element.iter(t))) for k, t in kinds.items()}
        names = [case.attrib["name"] for case in element.findall("testcase")]
        assert len(set(names)) == len(names)
    return {suite.attrib["name"]: suite for suite in root}


def outcomes(suite: ET.Element) -> dict[str, str]:
    return {case.attrib["name"]: case[0].tag if len(case) else "ok" for case in suite.findall("testcase")}


def test_a_good_audit_is_one_passed_case_a_check() -> None:
    found = suites(text(WELL, "junit"))
    assert {name: outcomes(suite) for name, suite in found.items()} == {
        "mount": {"c[1-3]": "ok"},
        "nodes": {"c[1-3]": "ok"},
    }
    assert found["mount"].attrib["timestamp"] == "2023-11-14T22:13:20"


def test_findings_are_failures_notes_output_and_silent_nodes_skipped() -> None:
    result = replace(ILL, asked=ILL.asked[:1])
    found = suites(text(result, "junit"))
    assert {name: outcomes(suite) for name, suite in found.items()} == {
        "mount": {"c[2-3]": "failure", "c2": "failure", "c[1-3]": "system-out", "c4": "skipped"},
        "nodes": {"c4": "failure", "c[1-3]": "ok"},
    }
    case = found["mount"].find("testcase[@name='c[2-3]']/failure")
    assert case is not None
    assert case.attrib == {"type": "error", "message": "/sw: not mounted"}
    assert case.text == (
        "error[mount] c[2-3]: /sw\n  found     not mounted\n  expected  mounted from fs1:/export\n  hint      `mount /sw`"
    )
    warning = found["mount"].find("testcase[@name='c2']/failure")
    assert warning is not None
    assert warning.attrib["type"] == "warning"
    assert found["mount"].findtext("testcase[@name='c[1-3]']/system-out") == (
        "note[mount] c[1-3]: /sw\n  found     an older generation"
    )


def test_findings_on_the_same_nodes_are_one_failure_that_tells_all() -> None:
    more = replace(MOUNT, where="/sw options", severity="warning")
    failure = suites(text(replace(ILL, findings=(MOUNT, more)), "junit"))["mount"].find("testcase/failure")
    assert failure is not None
    assert failure.attrib == {"type": "error", "message": "/sw: not mounted (and 1 more)"}
    assert failure.text is not None
    assert "warning[mount] c[2-3]: /sw options\n" in failure.text


def test_an_audit_that_could_not_compare_is_an_error_though_no_check_has_findings() -> None:
    found = suites(text(replace(WELL, asked=(WayAnswers("ssh", "", "c[1-3]", ""),)), "junit"))
    assert outcomes(found["audit"]) == {"could audit": "error"}
    assert outcomes(found["mount"]) == {"c[1-3]": "skipped"}
    here = suites(text(replace(WELL, generation=None, findings=(HERE,)), "junit"))
    assert outcomes(here["generation"]) == {"here": "failure", "c[1-3]": "ok"}


def test_a_failure_is_a_document_with_one_error() -> None:
    found = suites(text(GROUPS, "junit", now=0))
    error = found["audit"].find("testcase/error")
    assert error is not None
    assert error.attrib["message"] == "groups-unreadable: `sinfo` does not say which nodes there are"
    assert error.text == GROUPS.render()


@given(st.text(st.characters()), st.text(st.characters()))  # surrogates and control characters, too
def test_junit_is_well_formed_whatever_nodes_say(where: str, found: str) -> None:
    for severity in ("error", "note"):
        finding = Finding("mount", severity, where, found, nodes="c1")  # type: ignore[arg-type]
        document = text(replace(WELL, findings=(finding,)), "junit")
        assert document.isascii()
        assert outcomes(suites(document)["mount"]).keys() == {"c1", "c[2-3]"}


# -- the file ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", ["table", "json", "junit", "prometheus", "deepops"])
def test_formats_go_to_a_file_readable_by_all(fmt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_report(ILL, fmt, None)
    on_stdout = capsys.readouterr().out
    old = os.umask(0o077)
    try:
        write_report(ILL, fmt, tmp_path / "answer")
    finally:
        os.umask(old)
    assert (tmp_path / "answer").read_text() == on_stdout
    assert len(on_stdout) > 400
    assert (tmp_path / "answer").stat().st_mode & 0o7777 == 0o644
    assert [p.name for p in tmp_path.iterdir()] == ["answer"]
    assert capsys.readouterr() == ("", "")


def test_an_explanation_goes_to_a_file(tmp_path: Path) -> None:
    write_report(ExplainResult("mount", "What it does."), "prometheus", tmp_path / "x")
    assert (tmp_path / "x").read_text() == "What it does.\n"


def test_text_that_is_no_utf_8_is_written_all_the_same(tmp_path: Path) -> None:
    write_report(replace(ILL, findings=(replace(MOUNT, found="caf\udce9"),)), "table", tmp_path / "x")
    assert "caf\\udce9" in (tmp_path / "x").read_text()


@pytest.mark.parametrize("fmt", ["deepops", "junit", "prometheus"])
def test_a_failure_without_a_file_is_told_on_both_streams(fmt: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_report(GROUPS, fmt, None)
    out, err = capsys.readouterr()
    assert "groups-unreadable" in out
    assert err == GROUPS.render() + "\n"


def test_a_bug_makes_the_alert_fire_as_well(tmp_path: Path) -> None:
    write_report(Bug("oh", hint="report it"), "prometheus", tmp_path / "x")
    assert 'envmgr_audit_error_info{reference="bug"} 1\n' in (tmp_path / "x").read_text()


@pytest.mark.parametrize("fmt", ["table", "json", "junit", "prometheus", "deepops"])
def test_an_interrupt_leaves_the_file(fmt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_text("old")
    write_report(Interrupted(), fmt, tmp_path / "x")
    assert (tmp_path / "x").read_text() == "old"
    assert capsys.readouterr().err.startswith("error[interrupted]: ")
