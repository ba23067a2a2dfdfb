"""A real audit of a cluster, as metrics, as JUnit and as DeepOps writes it."""

from __future__ import annotations

import json
import re

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import faults
from tests.helpers.programs import program, run


@pytest.mark.xdist_group("audited")
def test_a_real_audit_of_a_cluster_with_a_broken_node_in_every_format(audited: Audited) -> None:
    cluster, path = audited.cluster, "/var/lib/node_exporter/envmgr.prom"
    cluster.exec("login", ["mkdir", "-p", "/var/lib/node_exporter"], check=True)

    def audit(fmt: str) -> tuple[int, str]:
        argv = ["audit", "--via", "ssh", "--context", "bash-ssh", "--format", fmt, "--output", path]
        done = cluster.envmgr(argv)
        assert done.stdout == ""
        return done.code, cluster.exec("login", ["cat", path], check=True).stdout

    code, metrics = audit("prometheus")
    assert code == 0, metrics
    assert re.findall(r"^envmgr_audit_findings.* (?!0$).*", metrics, re.MULTILINE) == []
    assert f"\nenvmgr_published_generation {audited.generation}\n" in metrics
    with faults.unmounted(cluster, "c2"):
        code, metrics = audit("prometheus")
        junit_code, junit = audit("junit")
        deepops_code, deepops = audit("deepops")
    assert (code, junit_code, deepops_code) == (1, 1, 1)
    assert "\nenvmgr_audit_success 1\n" in metrics
    assert '\nenvmgr_audit_node_findings{node="c2",check="mount",severity="error"} 1\n' in metrics
    assert (
        '<testcase name="c2" classname="envmgr.audit.mount">\n      <failure type="error" message="/cluster/sw: cannot be used'
        in junit
    )
    cluster.exec("login", ["rm", "-r", "/var/lib/node_exporter"], check=True)  # the audit looks at this host, too
    verdict = json.loads(deepops)
    assert (verdict["ok"], verdict["nodes_available"]) == (False, 3)
    assert verdict["failures"][0].startswith("error[inventory] c2: /cluster/sw: nothing is mounted at /cluster/sw; ")
    assert all(" c2: " in failure for failure in verdict["failures"])
    checked = run(program("promtool"), "check", "metrics", stdin=metrics)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
