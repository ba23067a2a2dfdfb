"""Two hosts that work on one prefix at once, over NFS whose client keeps locks to itself: nothing that one brought is lost by the other."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.cluster.two_hosts import (
    BOTH,
    HOSTS,
    OWN,
    clean,
    end,
    prepare,
    published,
    require_nothing_lost,
    start,
)
from tests.helpers.waiting import DEADLINE, wait_for

WAITS = """#!/bin/sh
# The step of a publish that a test can hold: when its number is chosen, and before its file is written.
case " $* " in *' sign '*)
    : >/run/signing
    while [ ! -e /run/go ]; do sleep 0.1; done ;;
esac
exec /usr/bin/ssh-keygen "$@"
"""


@pytest.fixture
def hosts(nfs_cluster: Cluster) -> Iterator[Cluster]:
    prepare(nfs_cluster)
    yield nfs_cluster
    nfs_cluster.exec("c1", ["rm", "-f", "/run/signing", "/run/go", "/usr/local/bin/ssh-keygen"])
    clean(nfs_cluster)


def test_second_host_waits_for_a_publish_that_the_first_is_in_and_is_put_on_it(hosts: Cluster) -> None:
    hosts.write("c1", "/usr/local/bin/ssh-keygen", WAITS, 0o755)
    first = start(hosts, "c1", "build", OWN["c1"])
    wait_for(lambda: hosts.exec("c1", ["test", "-e", "/run/signing"]).returncode == 0, what="the flip of c1")
    second = start(hosts, "c2", "build", OWN["c2"])
    assert second.stderr is not None
    said = "".join(iter_until(second.stderr, "which publishes"))
    hosts.write("c1", "/run/go", "")
    done = end(first)
    assert done.code == 0, done.stderr
    out, err = second.communicate(timeout=DEADLINE)
    assert second.returncode == 0, err
    assert re.search(r"waiting for process \d+ on c1 since \S+, which publishes\n", said), said + err
    assert published(hosts) == {*OWN.values()}, out
    require_nothing_lost(hosts)
    assert [path.name for path in (hosts.host_prefix / "var/lock").glob("*.holder")] == []


def iter_until(lines: Iterator[str], words: str) -> Iterator[str]:
    """Up to the line that has them, or the end."""
    for line in lines:
        yield line
        if words in line:
            return


def test_two_hosts_at_once_lose_nothing_of_each_other(hosts: Cluster) -> None:
    """A few rounds of what `make soak SOAK=two_hosts` plays for long."""
    flips = 0
    for argvs in (
        {host: ("build", BOTH, OWN[host]) for host in HOSTS},
        {"c1": ("publish", "--remove", OWN["c1"]), "c2": ("gc",)},
        {"c1": ("build", OWN["c1"]), "c2": ("rollback", "1")},
        {"c1": ("gc",), "c2": ("build", BOTH, OWN["c2"])},
    ):
        running = {host: start(hosts, host, *argv) for host, argv in argvs.items()}
        for host, process in running.items():
            done = end(process)
            assert done.code == 0 or "error[no-generation]" in done.stderr, f"{host} {argvs[host]}: {done.stderr}"
        flips = require_nothing_lost(hosts, flips)
        hosts.sh(
            "c1", "sleep 3.1"
        )  # the client of the test bed has no close-to-open: it may know a generation's folder as it was made
        verified = end(start(hosts, "c1", "verify"))
        assert verified.code == 0, verified.stdout + verified.stderr
    assert {BOTH, OWN["c2"]} <= published(hosts)
