"""What real nodes tell of munge, accounts and Slurm."""

from __future__ import annotations

import json
import sys

import pytest

from envmgr.audit.checks import accounts, clock, munge, slurm, space
from envmgr.probe.shell import read_answer
from tests.helpers.cluster import Cluster, faults
from tests.helpers.evidence import audit_plan, evidence, probe_script, published_link, site, told
from tests.helpers.places import ROOT
from tests.helpers.waiting import wait_for

IDLE = {"c1": ("idle", ""), "c2": ("idle", ""), "c3": ("idle", "")}


@pytest.fixture(autouse=True, scope="module")
def prefix_of_the_build_user(cluster: Cluster) -> None:
    cluster.empty_prefix(owner="rsw")


def ask(cluster: Cluster, node: str, *checks: object) -> tuple[dict[str, str], dict[str, str]]:
    """Facts and own facts that the joined probe tells on a node; it must not complain."""
    where = site(build_user="rsw").model_copy(update={"prefix": cluster.prefix})
    script = probe_script(checks or (accounts, clock, munge, slurm, space), audit_plan(where))  # type: ignore[arg-type]
    done = cluster.exec(node, ["/bin/sh", "-s"], stdin=script)
    assert done.stderr == ""
    facts, own, _ = read_answer(done.stdout)
    assert "end" not in facts
    return dict(facts), dict(own)


def unmunge(cluster: Cluster, credential: str) -> str:
    """On the login node, by the code that the controller runs."""
    code = "import sys; from envmgr.audit.checks.munge import unmunge; from envmgr.system.run import Runner; print(unmunge(sys.argv[1], Runner()))"
    done = cluster.exec("login", [sys.executable, "-c", code, credential], env={"PYTHONPATH": str(ROOT)})
    assert done.stderr == ""
    return done.stdout.strip()


def test_healthy_nodes_tell_the_same_and_have_no_findings(cluster: Cluster) -> None:
    answers, own = {}, {}
    with published_link(cluster):
        for node in cluster.compute:
            answers[node], own[node] = ask(cluster, node)
    assert answers["c1"] == answers["c2"] == answers["c3"]
    assert answers["c1"]["accounts.alice"] == "uid 2001, gid 2001"
    assert answers["c1"]["accounts.owner"] == "2000 rsw"
    assert all(o["space.free_kb"].isdecimal() for o in own.values())
    assert {unmunge(cluster, o["munge.credential"]) for o in own.values()} == {""}
    now = float(own["c1"]["began"])
    given = evidence(
        answers,
        own=own,
        slurm=IDLE,
        settings={"build_user": "rsw", "policies": {"min_free": 0}, "audit": {"min_inodes": 0}},
        times=dict.fromkeys(answers, (now - 5, now + 5)),
        controller=ask(cluster, "login")[0],
    )
    for check in (accounts, clock, munge, slurm, space):
        assert told(check, given) == []


def test_munge_with_another_key(cluster: Cluster) -> None:
    restart = "kill $(cat /run/munge/munged.pid); while [ -e /run/munge/munged.pid ]; do sleep .02; done; setpriv --reuid munge --regid munge --clear-groups munged"
    with faults.shadowed_file(cluster, "c2", "/etc/munge/munge.key", "another key, of more than thirty-two bytes"):
        cluster.sh("c2", restart, check=True)
        _, own = ask(cluster, "c2", munge)
    cluster.sh("c2", restart, check=True)
    assert unmunge(cluster, own["munge.credential"]) == "invalid credential"
    assert unmunge(cluster, ask(cluster, "c2", munge)[1]["munge.credential"]) == ""


def test_munge_that_is_down(cluster: Cluster) -> None:
    cluster.sh("c2", "mv /run/munge/munge.socket.2 /run/munge/away", check=True)
    try:
        facts, own = ask(cluster, "c2", munge)
    finally:
        cluster.sh("c2", "mv /run/munge/away /run/munge/munge.socket.2", check=True)
    assert facts["munge.failed"].startswith('Failed to access "/run/munge/munge.socket.2"')
    assert "munge.credential" not in own


@pytest.mark.parametrize(
    ("credential", "reason"), [("garbage", "not a credential"), ("MUNGE:AAAA:", "invalid credential")]
)
def test_what_is_no_credential(cluster: Cluster, credential: str, reason: str) -> None:
    assert unmunge(cluster, credential).startswith(reason)


def test_account_that_differs_on_a_node(cluster: Cluster) -> None:
    passwd = cluster.exec("c3", ["cat", "/etc/passwd"], check=True).stdout
    with faults.shadowed_file(cluster, "c3", "/etc/passwd", passwd.replace("alice:x:2001:2001", "alice:x:2077:2001")):
        facts, _ = ask(cluster, "c3", accounts)
    assert facts["accounts.alice"] == "uid 2077, gid 2001"


def test_slurm_states_of_a_real_cluster(cluster: Cluster) -> None:
    code = "import json; from envmgr.nodes.slurm import node_states; from envmgr.system.run import Runner; print(json.dumps(node_states(Runner())))"

    found: dict[str, tuple[str, str]] = {}

    def c2_answers() -> bool:
        done = cluster.exec("login", [sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}, check=True)
        found.update({node: tuple(state) for node, state in json.loads(done.stdout).items()})
        return "not responding" not in found["c2"][0]

    cluster.exec("login", ["scontrol", "update", "nodename=c2", "state=drain", "reason=broken disk"], check=True)
    try:  # on a busy machine a node may not have answered Slurm in time, which it tells, too
        wait_for(c2_answers, what="c2 to answer Slurm")
    finally:
        cluster.exec("login", ["scontrol", "update", "nodename=c2", "state=resume"], check=True)
        cluster.wait_idle()
    assert told(slurm, evidence({"c1": {}, "c2": {}, "c3": {}}, slurm=found)) == [
        (
            "warning c2: Slurm: drained: broken disk | idle, mixed or allocated | "
            "once that is fixed: `scontrol update nodename=c2 state=resume`"
        )
    ]
