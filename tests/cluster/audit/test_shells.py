"""What start-up files do, on real nodes: each is told by its own line, in every kind of shell that somebody has."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster.disguises import do, file_on
from tests.helpers.drift_measure import judged
from tests.helpers.drifts import all_drifts

pytestmark = pytest.mark.xdist_group("audited")
# A line of a start-up file, the mode of a file, and an option of a mount, each on a node of its own.
KINDS = ("umask-hardened-on-one-node", "loader-cache-for-root-alone", "home-mounted-noexec")


def test_three_faults_of_three_kinds_are_three_findings(audited: Audited) -> None:
    drifts = [drift for drift in all_drifts() if drift.name in KINDS]
    with ExitStack() as stack:
        for drift in drifts:
            stack.enter_context(drift.put(audited.cluster))
        result = audited.audit("--via", "ssh", code=1)
    assert judged(result, [drift.expected for drift in drifts]).why == ()


def test_each_value_has_the_line_of_its_own_node(audited: Audited) -> None:
    """Two nodes of three differ, and no two are alike: what the host that audits has, too, is right."""
    with (
        file_on(audited.cluster, "c1", "/etc/profile.d/a.sh", "umask 077\n"),
        file_on(audited.cluster, "c2", "/etc/profile.d/z.sh", "umask 000\n"),
    ):
        found = audited.causes("--via", "ssh", code=1)
    assert {(nodes, where.partition(":")[0]) for _, nodes, where in found} == {
        ("c1", "/etc/profile.d/a.sh"),
        ("c2", "/etc/profile.d/z.sh"),
    }


def test_zsh_is_asked_where_somebody_has_it(audited: Audited) -> None:
    some = ("--via", "ssh", "--check", "contexts", "--check", "software")
    assert "zsh" not in audited.audit(*some, code=0)["contexts"]
    for node in audited.cluster.compute:
        do(audited.cluster, node, "cp -a /etc/passwd /run/passwd; sed -i '/^alice:/s|[^:]*$|/usr/bin/zsh|' /etc/passwd")
    try:
        result = audited.audit(*some, code=0)
    finally:
        for node in audited.cluster.compute:
            do(audited.cluster, node, "cat /run/passwd >/etc/passwd; rm /run/passwd")
    assert "zsh" in result["contexts"]
    assert result["findings"] == []
