"""contrib/grafana: every query of the dashboard, with its variables as Grafana fills them in, by promtool on metrics that we write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from envmgr.audit.findings import Caused as Finding
from envmgr.audit.fit.matrix import MatrixRow
from envmgr.audit.metrics import HELP
from envmgr.audit.result import AuditResult, WayAnswers
from envmgr.errors import EnvmgrError
from tests.helpers.exposition import WELL, Series, parse, text
from tests.helpers.places import ROOT
from tests.helpers.programs import program, run

DASHBOARD: dict[str, Any] = json.loads((ROOT / "contrib/grafana/envmgr.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

# Two hosts that audit. `login`: well at first, then a cluster with findings of every severity. `other`: well, then it fails.
ILL = replace(
    WELL,
    generation=13,
    nodes="c[1-3]",
    asked=(WayAnswers("ssh", "c[1-2]", "", "c3"), WayAnswers("slurm", "c1", "c2", "c3")),
    findings=(
        Finding("mount", "error", "/sw", "not mounted", nodes="c2"),
        Finding("nodes", "error", "ssh", "unreachable: no route", nodes="c3"),
        Finding("contexts", "warning", "bash-login", "another path", nodes="c[1-2]"),
        Finding("mount", "note", "/sw", "an older generation", nodes="c1"),
    ),
    matrix=(MatrixRow("pytorch/2.1", "c[1-2]", fit=False, reasons=("driver 450 is older than 525",)),),
    staged={"pytorch/2.1": 2},
)
FAILED = EnvmgrError("groups-unreadable", "`sinfo` fails")
CHANGE, LATER = 10, 12  # minutes


@dataclass(frozen=True)
class Query:
    """`where` is its place in the dashboard, `expr` as written there."""

    where: str
    expr: str


def queries() -> Iterator[Query]:
    for panel in PANELS:
        yield from (Query(f"{panel['title']} {target['refId']}", target["expr"]) for target in panel["targets"])
    yield from (Query(a["name"], a["expr"]) for a in DASHBOARD["annotations"]["list"])


QUERIES = list(queries())


def filled(expr: str, chosen: Mapping[str, str]) -> str:
    """The query that Grafana sends: its own variables, and the dashboard's as regular expressions."""
    values = {"__rate_interval": "5m", "__interval": "1m", "__range": "1h", **chosen}
    assert "${" not in expr
    found = re.sub(r"\$(\w+)", lambda match: values[match[1]], expr)
    assert "$" not in found
    return found


# Grafana's words for all, for one, and for several values of a variable.
ALL = {name: variable["allValue"] for name, variable in VARIABLES.items() if variable.get("includeAll")}
ONE = {"instance": "login", "check": "mount", "severity": "error", "node": "c2"}
SEVERAL = {"instance": "(login|other)", "check": "(mount|nodes)", "severity": "(error|warning)", "node": "(c2|c3)"}


def input_series() -> list[dict[str, str]]:
    """What a Prometheus has read by then, once a minute, of the text that the audits wrote."""
    told: dict[str, tuple[AuditResult, AuditResult | EnvmgrError]] = {"login": (WELL, ILL), "other": (WELL, FAILED)}
    found = []
    for instance, (before, after) in told.items():
        old, new = (parse(text(answer, "prometheus", now=0)) for answer in (before, after))
        for name in sorted(old.keys() | new.keys()):
            for labels in sorted(old.get(name, {}).keys() | new.get(name, {}).keys(), key=sorted):
                values = f"{_value(old, name, labels)}x{CHANGE - 1} {_value(new, name, labels)}x{LATER}"
                found.append(
                    {"series": _series(name, {**dict(labels), "instance": instance, "job": "node"}), "values": values}
                )
    return found


def _value(series: Series, name: str, labels: frozenset[tuple[str, str]]) -> str:
    value = series.get(name, {}).get(labels)
    return "_" if value is None else f"{value:f}"


def _series(name: str, labels: Mapping[str, str]) -> str:
    return f"{name}{{{','.join(f'{key}={json.dumps(value)}' for key, value in labels.items())}}}"


def promtool(folder: Path, expressions: Mapping[str, str]) -> str:
    """What promtool complains of, where an expression gives no sample. `expressions` are by what they are called."""
    tests = [
        {"expr": f"count({expr}) > bool 0", "eval_time": f"{LATER}m", "exp_samples": [{"labels": "{}", "value": 1}]}
        for expr in expressions.values()
    ]
    scene = {"interval": "1m", "input_series": input_series(), "promql_expr_test": tests}
    (folder / "test.yml").write_text(json.dumps({"evaluation_interval": "1m", "tests": [scene]}))
    done = run(program("promtool"), "test", "rules", "test.yml", cwd=folder)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("chosen", [ALL, SEVERAL], ids=["all", "several"])
def test_every_query_gives_samples_for_a_cluster_with_findings(tmp_path: Path, chosen: Mapping[str, str]) -> None:
    assert len(QUERIES) >= 15
    assert promtool(tmp_path, {query.where: filled(query.expr, chosen) for query in QUERIES}) == ""


def test_every_query_follows_what_is_chosen(tmp_path: Path) -> None:
    """One host, one check, one severity, one node: only why an audit failed is no question to the host that could look."""
    asked = {query.where: filled(query.expr, ONE) for query in QUERIES if query.where != "Why not A"}
    assert promtool(tmp_path, asked) == ""
    assert 'instance=~"login"' in asked["Age A"]
    assert all('instance=~"login"' in expr for expr in asked.values())


def test_a_query_that_gives_nothing_or_is_no_query_is_seen(tmp_path: Path) -> None:
    assert "got:nil" in promtool(tmp_path, {"wrong": "envmgr_audit_nods"}).replace(" ", "")
    assert "parse error" in promtool(tmp_path, {"wrong": "sum by (check envmgr_audit_findings"})


def test_the_values_to_choose_from_are_there(tmp_path: Path) -> None:
    """`label_values(SERIES, LABEL)`: some series has the label."""
    asked = {}
    for name, variable in VARIABLES.items():
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert found, name
            assert variable["definition"] == variable["query"]["query"]
            asked[name] = (
                f'count by ({found[2]}) ({filled(found[1], ALL)}) and on ({found[2]}) group by ({found[2]}) ({{{found[2]}!=""}})'
            )
    assert asked.keys() == {"instance", "check", "node"}
    assert promtool(tmp_path, asked) == ""


def test_the_dashboard_shows_every_metric_that_we_write_and_no_other() -> None:
    used = {name for query in QUERIES for name in re.findall(r"envmgr_\w+", query.expr)}
    assert used == HELP.keys()


def data_sources(data: Any) -> Iterator[Any]:
    if isinstance(data, dict):
        yield from (value for key, value in data.items() if key == "datasource")
    for inner in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from data_sources(inner)


def test_it_can_be_imported_anywhere() -> None:
    """No data source of ours, no number or uid that another dashboard may have, panels that do not overlap."""
    assert DASHBOARD["id"] is None
    assert "uid" not in DASHBOARD
    assert VARIABLES["datasource"]["type"] == "datasource"
    assert VARIABLES["datasource"]["query"] == "prometheus"
    sources = list(data_sources(DASHBOARD))
    assert len(sources) > len(QUERIES)
    assert [source for source in sources if source != SOURCE] == []
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert {x for x, _ in cells} == set(range(24))


def test_every_panel_says_what_it_shows() -> None:
    titles = [panel["title"] for panel in PANELS]
    assert len(set(titles)) == len(titles)
    assert [panel["title"] for panel in PANELS if not panel["description"]] == []


def test_what_a_query_asks_for_is_among_the_variables() -> None:
    used = {name for query in QUERIES for name in re.findall(r"\$(\w+)", query.expr)} - {"__rate_interval"}
    assert used | {"datasource"} == VARIABLES.keys()
