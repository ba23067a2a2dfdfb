"""A candidate on real nodes: tested by an ordinary user, used by a volunteer in shells and jobs, audited, and promoted."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.helpers.audit_scene import Audited

pytestmark = [pytest.mark.xdist_group("audited"), pytest.mark.always]

ENTRY = "fresh/1.0"
JOB = f"module load {ENTRY} && hello-prefix >/dev/null && echo $ENVMGR_GENERATION"


@pytest.fixture
def lab(audited: Audited) -> Iterator[Audited]:
    """A test that fails where there is a file, which lies on a node's own disk."""
    cluster = audited.cluster
    run = "test ! -e /run/broken && hello-prefix"
    cluster.recipe(ENTRY, ["hello-prefix"], tests=[{"name": "says hello", "run": run}])
    try:
        yield audited
    finally:
        cluster.sh("c2", "rm -f /run/broken")
        cluster.envmgr(["publish", "--remove", ENTRY])
        cluster.sh("login", "rm -rf /etc/envmgr/recipes/fresh", check=True)


def test_from_a_candidate_to_what_everybody_has(lab: Audited) -> None:
    cluster, before = lab.cluster, lab.generation
    lab.envmgr("lock", ENTRY)
    lab.envmgr("build", "--candidate", ENTRY)
    number = str(json.loads(cluster.envmgr(["history", "--format", "json"]).stdout)["generations"][-1]["number"])
    assert lab.generation == before

    # Nobody has it, but who asks for it: in a shell, and in a job that a usual shell submits.
    nobody = cluster.exec("c1", ["bash", "-lc", f"module load {ENTRY}"], user="alice")
    assert nobody.returncode != 0
    mine = cluster.exec("c1", ["env", "ENVMGR_USE=candidate", "bash", "-lc", JOB], user="alice")
    assert mine.stdout.split() == [number]
    assert mine.stderr == f"envmgr: modules of candidate {number}; generation {before} is current\n"
    cluster.wait_idle()
    script = f"ENVMGR_USE=candidate srun -N2 bash -lc '{JOB}'"
    job = cluster.exec("login", ["bash", "-lc", script], user="alice")
    assert job.stdout.split() == [number] * 2, job.stderr

    # A node on which it fails keeps it from all.
    cluster.sh("c2", "touch /run/broken", check=True)
    red = cluster.envmgr(["test", ENTRY, "--generation", number, "--nodes", "c[1-3]"])
    assert red.code == 1, red.stderr
    refused = cluster.envmgr(["promote", number])
    assert (refused.code, "`says hello` on c2" in refused.stderr) == (3, True), refused.stderr
    cluster.sh("c2", "rm /run/broken", check=True)
    hint = ["test", ENTRY, "--generation", number, "--nodes", "c2"]
    assert f"`envmgr {' '.join(hint)}`" in refused.stderr
    assert cluster.envmgr(hint).code == 0

    # The audit looks at it as volunteers see it, in every kind of shell and job.
    found = lab.audit("--generation", number, "--modules", ENTRY, "--via", "both")
    assert found["generation"] == int(number)
    assert [f for f in found["findings"] if f["severity"] != "note"] == []
    assert lab.audit("--check", "generation")["generation"] == before
    none = cluster.envmgr(["audit", "--generation", "999", "--check", "generation"])
    assert "error[not-in-shells]" in none.stderr, none.stderr

    promoted = cluster.envmgr(["promote", number])
    assert promoted.code == 0, promoted.stderr
    assert "not tested on nodes" not in promoted.stdout
    assert cluster.exec("c3", ["bash", "-lc", JOB], user="alice").stdout.split() == [number]
    lab.envmgr("rollback", str(before))
