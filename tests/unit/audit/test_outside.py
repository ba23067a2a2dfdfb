"""Findings about trees that are not ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from envmgr.audit.checks import outside
from envmgr.audit.model import Evidence
from envmgr.modules.spec import ModuleSpec, Outside
from tests.helpers.evidence import SHA, audit_plan, evidence, site, told

TREE = Outside(path="/opt/vendor", roots=("/opt/vendor",), how="full", shape=SHA)


def given(answers: Mapping[str, Mapping[str, str]]) -> Evidence:
    made = evidence(answers)
    assert made.published is not None
    spec = ModuleSpec(name="vend", version="1", root="/sw/store/vend/1-0", digest=SHA, description="x", outside=TREE)
    return replace(made, published=replace(made.published, specs={"vend/1": spec}))


def good(shape: str = SHA) -> dict[str, str]:
    return {"outside.seen": "1", "outside.shape.0": shape}


def test_findings() -> None:
    assert told(outside, given({"c1": good(), "c2": good()})) == []
    assert told(outside, given({"c1": {"outside.user": "unknown"}})) == [], "another check reports it"
    (line,) = told(outside, given({"c1": good("1" * 64), "c2": good()}))
    assert line.startswith("error c1: vend/1: /opt/vendor is not what was published | ")
    assert "is /opt/vendor another copy on these nodes?" in line
    (line,) = told(outside, given({"c1": good("1" * 64), "c2": good("2" * 64)}))
    assert line.startswith("error c[1-2]: vend/1: /opt/vendor is not what was published | ")
    assert "`envmgr verify vend/1` lists what changed" in line
    (line,) = told(outside, given({"c1": {}, "c2": good()}))
    assert line.startswith("warning c1: vend/1: /opt/vendor: not listed within ")
    gone = {"outside.seen": "1"}
    assert told(outside, given({"c1": gone, "c2": gone})) == [], "the check `software` tells it"
    assert outside.probe(audit_plan(site())) == {}
    assert told(outside, evidence({"c1": {}})) == []
