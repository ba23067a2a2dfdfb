"""`envmgr doctor` on this machine."""

from __future__ import annotations

from tests.helpers.sandbox import Sandbox


def test_shells_are_looked_at_also_where_nothing_is_published(sandbox: Sandbox) -> None:
    found = sandbox.run("doctor", "--format", "json").data
    assert found["unlooked"] == f"published modules: nothing is published in {sandbox.prefix}, as this host sees it"
    assert {"bash-login", "bash-ssh"} <= {*found["contexts"]}
