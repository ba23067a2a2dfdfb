"""Drifts of chance are the same of the same seed, and never at a place that is not the cluster's own; what a report is worth is counted by names and nodes."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import pytest

from tests.helpers.drift_measure import Expected, Verdict, judged, still_told
from tests.helpers.drift_places import Places
from tests.helpers.random_drifts import KINDS, draw, draw_some

NODES = ("c1", "c2", "c3")
EVERY = ("login", *NODES)
PLACES = Places(
    opened=["/usr/bin/id", "/etc/passwd"],
    files=["/etc/hosts", "/cluster/sw/store/a/lib/x.py", "/home/alice/.vimrc"],
    start_up=["/etc/profile", "/etc/csh.cshrc", "/home/alice/.bashrc"],
    csh=["/etc/csh.cshrc"],
    programs=["/usr/bin/id", "/opt/a/bin/run"],
    folders=["/opt/a", "/etc/lmod"],
    entered=["/usr/share/lmod"],
    open=["/tmp"],
    modules=["/opt/a/modules/gcc/12.lua", "/cluster/sw/generations/0001/modules/a/1.lua"],
    texts={
        "/etc/profile": ["# of the system", "PATH=/bin", ""],
        "/etc/csh.cshrc": ["umask 22"],
        "/home/alice/.bashrc": [],
    },
    links={"/bin/sh": "/bin/dash", "/cluster/sw/current": "/cluster/sw/generations/0001"},
    passed=["/bin/sh"],
    mounts={"/home": "rw,relatime", "/dev/shm": "rw,nosuid,nodev,relatime"},
    variables=["PATH", "HOME"],
    asked=["CDPATH"],
    sshd=["usepam no", "maxsessions 10", "banner none"],
    limits=["as", "nofile"],
    rows={
        "node": {"NodeName": "c1", "Weight": "1", "NodeAddr": "c1"},
        "partition": {"PartitionName": "all", "MaxNodes": "UNLIMITED"},
    },
)


@pytest.mark.parametrize("seed", range(60))
def test_the_same_seed_gives_the_same_drifts_each_of_another_kind_and_place(seed: int) -> None:
    drifts = draw_some(random.Random(seed), PLACES, NODES)
    assert drifts == draw_some(random.Random(seed), PLACES, NODES)
    assert 1 <= len(drifts) == len({drift.kind for drift in drifts}) <= 3
    for one, other in permutations([f"{drift.names[0]}/" for drift in drifts], 2):
        assert not one.startswith(other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_drift_is_put_on_its_nodes_and_what_nodes_share_once(kind: str) -> None:
    for drift in (draw(kind, random.Random(seed), PLACES, NODES) for seed in range(60)):
        assert drift.kind == kind
        assert {*drift.nodes} <= {*EVERY}
        if "mount" in drift.do:  # of the node's own view: what lies below may be this machine's disk
            assert drift.at == drift.nodes
            assert "remount" not in drift.do + drift.undo.replace("remount,bind,", "") or "remount,bind," in drift.do
        elif drift.names[0].startswith("/cluster/sw"):
            assert (drift.at, drift.nodes) == (("fs1",), EVERY)
            assert "/cluster/sw" not in "".join((drift.do.partition(" ")[2] if kind != "link" else "", *drift.keeps))
        elif drift.names[0].startswith("/home"):
            assert (len(drift.at), drift.nodes) == (1, EVERY)
        elif kind == "Slurm row":
            assert drift.at == ("login",)
        else:
            assert drift.at == drift.nodes


PROFILE = Expected(("/etc/profile", "UMASK"), frozenset({"c2"}), frozenset({"c2"}))
DISK = Expected(("/scratch", "limit|limits nofile|-n"), frozenset({"c3"}))
ALL = Expected(("/home/alice/.bashrc",), frozenset(EVERY), frozenset(EVERY), frozenset({"login"}))


def cause(nodes: str, found: str, severity: str = "error", **more: Any) -> dict[str, Any]:
    plain = {"where": "here", "expected": "", "hint": "", "cause": "", "between": "", "actions": [], "consequences": []}
    return {**plain, "nodes": nodes, "found": found, "severity": severity, **more}


OF_PROFILE = cause("c2", "umask is 077", hint="see /etc/profile:3")
OF_DISK = cause("c3", "limits differ: open files (-n)", "note")
AT_PROFILE, BELOW = cause("c1", "/etc/profile"), cause("c2", "/etc/profile/x")


@pytest.mark.parametrize(
    ("put", "causes", "said", "why", "hidden"),
    [
        ([PROFILE], [OF_PROFILE], "right", [], ""),
        ([PROFILE, DISK], [OF_DISK, OF_PROFILE], "right", [], ""),
        ([PROFILE], [OF_PROFILE, cause("c2", "again: umask")], "right", [], ""),
        ([PROFILE], [cause("c2", "x", actions=[{"command": "", "file": "/etc/profile", "text": ""}])], "right", [], ""),
        ([ALL], [cause("c[1-3]", "/home/alice/.bashrc:1 exits")], "right", [], ""),
        ([PROFILE], [OF_PROFILE, OF_DISK], "right", [], ""),
        ([PROFILE], [OF_PROFILE, AT_PROFILE], "badly", ["accused: error c1 here /etc/profile"], ""),
        ([PROFILE], [{**OF_PROFILE, "severity": "note"}], "badly", ["not named: /etc/profile on c2"], ""),
        ([PROFILE], [{**OF_PROFILE, "nodes": "c[1-2]"}], "badly", ["not named: /etc/profile on c2", "accused: error c[1-2] here umask is 077"], ""),
        ([PROFILE], [BELOW], "badly", ["not named: /etc/profile on c2", "accused: error c2 here /etc/profile/x"], ""),
        ([PROFILE], [OF_DISK, OF_PROFILE], "badly", ["not named: /etc/profile on c2"], ""),
        ([PROFILE], [cause("c2", "x", consequences=[OF_PROFILE])], "badly", ["not named: /etc/profile on c2", "accused: error c2 here x"], ""),
        ([PROFILE], [], "missed", ["not named: /etc/profile on c2"], "c2"),
        ([PROFILE], [cause("c3", "x")], "missed", ["not named: /etc/profile on c2", "accused: error c3 here x"], "c2"),
        ([ALL], [cause("", "7 on c[1-2]; 8 on login,c3")], "missed", ["not named: /home/alice/.bashrc on c1,c2,c3,login", "accused: error  here 7 on c[1-2]; 8 on login,c3"], ""),
    ],
)  # fmt: skip
def test_right_is_named_first_on_exactly_its_nodes_and_nothing_else_accused(
    put: list[Expected], causes: list[dict[str, Any]], said: Any, why: list[str], hidden: str
) -> None:
    result = {"causes": causes, "findings": causes}
    assert judged(result, put) == Verdict(said, tuple(why), frozenset(hidden.split()))


def test_what_a_healthy_cluster_has_too_does_not_count_and_a_hint_that_leaves_the_drift_is_seen() -> None:
    result = {"causes": [AT_PROFILE, OF_PROFILE], "findings": [AT_PROFILE, OF_PROFILE]}
    assert judged(result, [PROFILE], {"error c1 here /etc/profile"}).said == "right"
    assert still_told(PROFILE, OF_PROFILE, result) == ["error c2 here umask is 077"]
    assert still_told(PROFILE, AT_PROFILE, result) == still_told(DISK, OF_DISK, result) == []
