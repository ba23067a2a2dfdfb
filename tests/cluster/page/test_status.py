"""What nodes answer gets beside the page: the gate's verdicts by the audit, the last tests by `test --nodes`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster.faults import sshd_stopped


def status(audited: Audited) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((audited.cluster.host_prefix / "var/www/status.json").read_text())
    return data


@pytest.mark.always
def test_audits_and_tests_on_nodes_say_beside_the_page_what_they_saw(audited: Audited, tmp_path: Path) -> None:
    # Not behind the server's back: it keeps what it knows of a folder for a minute. Other tests have tested on nodes, too.
    var = f"{audited.cluster.prefix}/var"
    audited.cluster.sh("login", f"rm -rf {var}/www {var}/tests {var}/audit/nodes.json", check=True)
    with sshd_stopped(audited.cluster, "c3"):
        seen = [
            audited.cluster.envmgr([*verb, "--nodes", "c[1-3]", "--via", "ssh"])
            for verb in (["audit"], ["test", "hello/2.0"])
        ]
    assert not [done.stderr for done in seen if "as it was" in done.stderr or "not kept" in done.stderr]
    found = status(audited)
    record = json.loads((audited.cluster.host_prefix / "current/generation.json").read_text())
    assert (found["generation"], sorted(found["entries"])) == (audited.generation, sorted(record["entries"]))
    entry = found["entries"]["hello/2.0"]
    rows = [(row["group"], row["nodes"], row["verdict"]) for row in entry["gate"]]
    assert rows == [("compute", "c[1-2]", "fits"), ("compute", "c3", "not seen")]
    assert {(row["test"], row["nodes"], row["status"]) for row in entry["tests"]} >= {("runs", "c[1-2]", "passed")}
    assert not [row for row in entry["tests"] if "3" in row["nodes"]]
    assert entry["digest"] == record["entries"]["hello/2.0"]["digest"]
    # A user who may not write there writes nothing, and is not told of it.
    before = (audited.cluster.host_prefix / "var/www/status.json").read_bytes()
    audited.cluster.envmgr(["audit", "--nodes", "c[1-2]", "--via", "ssh"], user="alice")
    assert (audited.cluster.host_prefix / "var/www/status.json").read_bytes() == before
    audited.audit("--nodes", "c[1-3]", "--via", "ssh")
    rows = [(row["group"], row["nodes"], row["verdict"]) for row in status(audited)["entries"]["hello/2.0"]["gate"]]
    assert rows == [("compute", "c[1-3]", "fits")]
