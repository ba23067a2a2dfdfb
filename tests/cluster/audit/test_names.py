"""What real nodes tell of their own names, by /etc/hosts as installers, cloud-init and old networks leave it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from envmgr.audit.checks import names
from envmgr.probe.shell import read_answer
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.disguises import do
from tests.helpers.evidence import audit_plan, probe_script, published_link, site


@contextmanager
def hosts(cluster: Cluster, node: str, script: str) -> Iterator[None]:
    """/etc/hosts of a node, changed by sed."""
    do(cluster, node, f"cp -a /etc/hosts /run/hosts-before && sed -i -e '{script}' /etc/hosts")
    try:
        yield
    finally:
        do(cluster, node, "cat /run/hosts-before >/etc/hosts")


def ask(cluster: Cluster, node: str) -> dict[str, str]:
    where = site().model_copy(update={"prefix": cluster.prefix})
    with published_link(cluster):
        done = cluster.exec(node, ["/bin/sh", "-s"], stdin=probe_script([names], audit_plan(where)))
    assert done.stderr == ""
    facts = read_answer(done.stdout)[0]
    told = ("own", "foreign", "line", "other", "writer")
    return {key: facts[f"names.{key}"] for key in told if f"names.{key}" in facts}


def test_healthy_node_has_its_own_address(cluster: Cluster) -> None:
    assert [ask(cluster, node) for node in ("login", *cluster.compute)] == [{"own": ""}] * 4


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("1i 127.0.1.1 C2.cluster C2 # by the installer", {"own": "127.0.1.1", "line": "/etc/hosts:1", "other": "yes"}),
        (r"s/^.* c2$/127.0.1.1\tc2.cluster c2/", {"own": "127.0.1.1", "line": "/etc/hosts:5"}),
        (
            "1i # manage_etc_hosts is True\\n127.0.1.1 c2\\n127.0.0.1 c2",
            {"own": "127.0.0.1 127.0.1.1", "line": "/etc/hosts:2", "other": "yes", "writer": "cloud-init"},
        ),
        ("s/^.* c2$/10.9.9.9 c2/", {"own": "", "foreign": "10.9.9.9", "line": "/etc/hosts:5"}),
        ("1i 127.0.1.1 c22 c1 #c2", {"own": ""}),
        ("/ c2$/d", {"own": "nothing"}),
    ],
)
def test_line_that_gives_another_address_is_told(cluster: Cluster, script: str, told: dict[str, str]) -> None:
    with hosts(cluster, "c2", script):
        assert ask(cluster, "c2") == told
    assert ask(cluster, "c2") == {"own": ""}
