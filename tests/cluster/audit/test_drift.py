"""A healthy cluster, and one node that drifts: part of `make test`."""

from __future__ import annotations

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import faults

PREFIX = "/cluster/sw"
SOURCE = "fs1:/export/sw"


def test_healthy_cluster_has_no_findings_and_exits_0(audited: Audited) -> None:
    audited.cluster.write_site(login_nodes="login")  # the shells of this host are compared with those of the nodes
    try:
        result = audited.audit("--via", "ssh", code=0)
    finally:
        audited.cluster.write_site()
    assert result["findings"] == []
    assert result["asked"] == [{"way": "ssh", "answered": "c[1-3]", "silent": "", "unreachable": ""}]


def test_unmounted_prefix_is_told_on_its_node_alone_and_is_gone_once_mended(audited: Audited) -> None:
    with faults.unmounted(audited.cluster, "c2"):
        result = audited.audit(code=1)
    (cause,) = result["causes"]
    assert (cause["severity"], cause["nodes"], cause["where"]) == ("error", "c2", PREFIX)
    assert cause["found"].startswith(f"nothing is mounted at {PREFIX}; fuse.nfs3 {SOURCE} ")
    assert cause["hint"] == "mount it, and is it in /etc/fstab?"
    assert audited.findings(code=0) == []
