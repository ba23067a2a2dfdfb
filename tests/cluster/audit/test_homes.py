"""No context of any verb leaves a trace in a home, whatever the user's start-up files make of histories."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster.homes import HISTORIES, READONLY, START_UP, changed, furnished, state

pytestmark = pytest.mark.xdist_group("audited")


@pytest.fixture
def homes(audited: Audited, request: pytest.FixtureRequest) -> Iterator[tuple[str, ...]]:
    """The nodes, with such start-up files in their homes; alice has zsh, so that this is asked, too."""
    cluster = audited.cluster
    try:
        for node in ("login", *cluster.compute):
            cluster.sh(
                node, "cp -a /etc/passwd /run/kept; sed -i '/^alice:/s|[^:]*$|/usr/bin/zsh|' /etc/passwd", check=True
            )
        with furnished(cluster, request.param) as nodes:
            yield nodes
    finally:
        for node in ("login", *cluster.compute):
            cluster.sh(node, "cat /run/kept >/etc/passwd; rm /run/kept", check=True)


@pytest.mark.parametrize("homes", [START_UP, READONLY], indirect=True, ids=["writes-histories", "readonly-histfile"])
def test_no_verb_leaves_a_trace_in_a_home(audited: Audited, homes: tuple[str, ...]) -> None:
    cluster = audited.cluster
    contexts: set[str] = set()
    before = state(cluster, *homes)
    assert {path.rpartition("/")[2] for path in before} >= set(HISTORIES)
    said = audited.audit("--via", "both")
    contexts = set(said["contexts"])
    assert {"bash-interactive", "zsh", "csh", "srun-pty", "sbatch-bash-login"} <= contexts
    ended = [f for f in said["findings"] if f["severity"] == "error"]
    assert ended == [], "each shell was asked to its end"
    assert changed(before, state(cluster, *homes)) == [], "audit"
    for argv in (
        ("test", "--nodes", "c[1-3]"),
        ("test",),
        ("node-setup", "--nodes", "c[1-3]"),
        ("node-setup", "--apply", "--nodes", "c[1-3]"),
        ("adopt", "--nodes", "c[1-3]", "--output", "/run/adopted.yaml"),
        ("gc", "--dry-run"),
        ("verify", "--nodes", "c[1-3]"),
    ):
        done = cluster.envmgr(list(argv))
        assert done.code == 0, f"{argv}\n{done.stdout}{done.stderr}"
        assert changed(before, state(cluster, *homes)) == [], argv
    cluster.sh("login", "rm /run/adopted.yaml", check=True)


@pytest.mark.parametrize("homes", [START_UP], indirect=True, ids=["writes-histories"])
def test_no_trace_of_a_shell_leaves_one_in_a_home(audited: Audited, homes: tuple[str, ...]) -> None:
    """Where a finding has its line looked for, traced shells read the same start-up files."""
    cluster = audited.cluster
    lines = {
        "/etc/csh.cshrc": "setenv PYTHONPATH /opt/sci",
        "/etc/zsh/zshenv": "export PYTHONPATH=/opt/sci",
        "/etc/profile.d/zzz-sci.sh": "export PYTHONPATH=/opt/sci",
        "/etc/bash.bashrc": "export PYTHONPATH=/opt/sci",
    }
    kept = {path: f"/run/kept{path.replace('/', '-')}" for path in lines}
    add = "".join(
        f"[ ! -e {path} ] || cp -a {path} {kept[path]}; echo '{line}' >>{path}\n" for path, line in lines.items()
    )
    take = "".join(f"if [ -e {kept[path]} ]; then mv {kept[path]} {path}; else rm {path}; fi\n" for path in lines)
    cluster.sh("c1", add, check=True)
    try:
        before = state(cluster, *homes)
        found = audited.causes("--via", "both", code=1)
        assert changed(before, state(cluster, *homes)) == []
    finally:
        cluster.sh("c1", take, check=True)
    assert {where.partition(":")[0] for _, nodes, where in found if nodes == "c1"} == {*lines}, found
