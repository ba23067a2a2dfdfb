"""`check` where Slurm and ssh are real: partitions, options of jobs, and names of nodes."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from tests.helpers.cluster import Cluster
from tests.helpers.places import ROOT

NONE = ("", "")


def row(cluster: Cluster, field: str, **settings: Any) -> tuple[str, str]:
    cluster.write_site(**settings)
    done = cluster.envmgr(["check", "--format", "json"])
    facts = json.loads(done.stdout)["facts"]
    return next(((fact["status"], fact["text"]) for fact in facts if fact["field"] == field), NONE)


def test_accounts_of_the_small_cluster_make_no_finding(cluster: Cluster) -> None:
    """The build user as the example's comment makes it, on the login node only, and the example's user of the audit."""
    example = ROOT / "docs/examples/small-cluster/site.yaml"
    site = yaml.safe_load(example.read_text())
    command = re.search(rf"useradd [^&]*\b{site['build_user']}\b", example.read_text())
    assert command is not None
    cluster.sh("login", command[0], check=True)
    try:
        owner = ":".join(cluster.sh("login", f"id -u {site['build_user']}; id -g {site['build_user']}").stdout.split())
        cluster.empty_prefix()
        cluster.sh("fs1", f"rm -rf /export/sw/*; chown {owner} /export/sw", check=True)
        cluster.write_site(build_user=site["build_user"], audit=site["audit"])
        done = cluster.envmgr(["audit", "--via", "both", "--format", "json"])
        wrong = [finding for finding in json.loads(done.stdout)["findings"] if finding["severity"] != "note"]
        assert (done.code, wrong) == (0, [])
        rows = json.loads(cluster.envmgr(["check", "--format", "json"]).stdout)["facts"]
        assert [row for row in rows if row["field"] in {"build_user", "audit.user"} and row["status"] != "ok"] == []
    finally:
        cluster.sh("login", f"userdel -r {site['build_user']}")
        cluster.empty_prefix("rsw")
        cluster.write_site()


def test_dry_runs_of_adopt_and_audit_look_and_write_nothing(cluster: Cluster) -> None:
    cluster.write_site()
    files = "/root/proposed.yaml /root/baseline /root/report.json"
    listing = f"ls {files} 2>/dev/null; find {cluster.prefix}/var/audit -printf '%p %T@\\n' 2>/dev/null"
    proposed, baseline, report = files.split()
    before = cluster.sh("login", listing).stdout
    shown = cluster.envmgr(["adopt", "--nodes", "c1", "--output", proposed, "--dry-run"])
    assert (shown.code, f"would write that to {proposed}" in shown.stdout.splitlines()) == (0, True)
    assert "prefix:" in shown.stdout
    asked = ["audit", "--nodes", "c1", "--check", "nodes", "--check", "fitness", "--save-baseline", baseline]
    done = cluster.envmgr([*asked, "--output", report, "-n"])
    assert {f"would write {baseline}", f"would write {report}"} <= set(done.stderr.splitlines()), done.stderr
    assert "c1 by ssh" in done.stdout, done.stdout
    assert cluster.sh("login", listing).stdout == before


def test_site_check_asks_slurm_and_the_name_service(cluster: Cluster) -> None:
    every = f"c[1-{len(cluster.compute)}]"
    count = f"{len(cluster.compute)} nodes"
    try:
        assert row(cluster, "groups") == ("ok", f"compute: {every} ({count})")
        partition = cluster.exec("login", ["sinfo", "-h", "-o", "%R"], check=True).stdout.split()[0]
        groups = {"compute": {"slurm": partition}}
        assert row(cluster, "groups", groups=groups) == ("ok", f"compute: {every} ({count})")
        wrong = row(cluster, "groups.compute", groups={"compute": {"slurm": "nosuch"}})
        assert wrong == ("error", "nosuch (slurm): there is no Slurm partition `nosuch`")

        for via in "slurm", "both":
            good = {"transport": {"via": via, "slurm_options": [f"--partition={partition}"]}}
            assert row(cluster, "transport.via", **good)[0] == "ok"
            assert row(cluster, "transport.slurm_options", **good) == NONE
            status, text = row(cluster, "login_nodes", login_nodes="c9", transport={"via": via})
            assert (status, text.endswith("Slurm does not know c9")) == ("warning", via == "slurm"), text
        bad = {"transport": {"via": "slurm", "slurm_options": ["--partition=nosuch"]}}
        status, text = row(cluster, "transport.slurm_options", **bad)
        assert (status, "invalid partition specified: nosuch" in text) == ("error", True), text
        assert row(cluster, "audit.user") == NONE
        assert cluster.exec("login", ["squeue", "-h"], check=True).stdout == ""
    finally:
        cluster.write_site()
