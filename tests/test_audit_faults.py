"""Bad days on a real cluster over NFS: every fault is found by name, on its nodes alone, and is gone once mended."""

from __future__ import annotations

import time

import pytest

from tests.audit_scene import Audited
from tests.cluster import faults

pytestmark = pytest.mark.xdist_group("audited")
PREFIX = "/cluster/sw"


def test_healthy_cluster_has_no_findings_and_exits_0(audited: Audited) -> None:
    result = audited.audit("--via", "ssh", code=0)
    assert result["findings"] == []
    assert result["asked"] == [{"way": "ssh", "answered": "c[1-3]", "silent": "", "unreachable": ""}]


def test_unmounted_prefix_is_one_finding(audited: Audited) -> None:
    with faults.unmounted(audited.cluster, "c2"):
        assert audited.findings(code=1) == [
            ("error", "mount", "c2", PREFIX, "not mounted: a folder on / (overlay)"),
        ]
    assert audited.findings(code=0) == []


def test_hung_prefix_is_one_finding_and_the_audit_ends(audited: Audited) -> None:
    with faults.hung(audited.cluster, "c2"):
        began = time.monotonic()
        found = audited.findings("--deadline", "15", code=1)
        assert time.monotonic() - began < 20
        assert found == [("error", "mount", "c2", PREFIX, "does not answer (fuse.nfs3 fs1:/export/sw)")]
    assert audited.findings(code=0) == []
