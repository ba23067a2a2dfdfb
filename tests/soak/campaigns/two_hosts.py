"""Two hosts publish, build, remove, roll back and clean up at once, over NFS whose client keeps locks to itself; every tenth round one is killed.

After each round the flips are one chain, each publish changed only what it was asked to, and `verify` finds nothing.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.cluster import Cluster
from tests.helpers.cluster.two_hosts import BOTH, HOSTS, OWN, end, prepare, published, require_nothing_lost, start

ROUNDS = 100
LONGEST = 6.0  # seconds after which a command is killed, at most
MAY_SAY = ("not-published", "no-generation", "install-missing", "nothing-published")
"""What a command may meet because the other host was first: the entry or the generation is gone by then."""


def play(seed: int, first: int, last: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        cluster = Cluster(Path(folder) / "lab", nodes=2, share="nfs")
        cluster.up()
        try:
            prepare(cluster)
            flips = 0
            for number in range(first, last + 1):
                words, flips = _round(cluster, random.Random(f"{seed}/{number}"), flips, kill=number % 10 == 0)
                yield words
        finally:
            cluster.down()


def _round(cluster: Cluster, chance: random.Random, flips: int, *, kill: bool) -> tuple[str, int]:
    argvs = {host: _command(cluster, host, chance) for host in HOSTS}
    running = {host: start(cluster, host, *argv) for host, argv in argvs.items()}
    killed = chance.choice(HOSTS) if kill else ""
    if killed:
        time.sleep(chance.uniform(0, LONGEST))
        os.killpg(running[killed].pid, signal.SIGKILL)
        cluster.sh(killed, "pkill -KILL -f 'm envmgr'")
        running[killed].communicate()
        cleaned = end(start(cluster, killed, "gc"))  # what it left goes with its next run
        assert cleaned.code == 0, f"{killed}: gc after a kill: {cleaned.stdout}{cleaned.stderr}"
    told = []
    for host in HOSTS:
        done = None if host == killed else end(running[host])
        if done is not None and done.code and not any(f"error[{name}]" in done.stderr for name in MAY_SAY):
            raise AssertionError(f"{host}: {argvs[host]}: {done.code}\n{done.stdout}{done.stderr}")
        told.append(f"{host} {' '.join(argvs[host])}: {'killed' if done is None else done.code}")
    flips = require_nothing_lost(cluster, flips)
    if flips:
        verified = end(start(cluster, chance.choice(HOSTS), "verify"))
        assert verified.code == 0, f"{told}\n{verified.stdout}{verified.stderr}"
    return "; ".join(told), flips


def _command(cluster: Cluster, host: str, chance: random.Random) -> list[str]:
    choices = [*[["build", OWN[host]]] * 4, *[["build", BOTH]] * 3, *[["gc"]] * 2]
    if (cluster.host_prefix / "current").exists():
        choices += [["publish", "--remove", entry] for entry in (OWN[host], BOTH) if entry in published(cluster)]
        kept = sorted(int(p.parent.name) for p in cluster.host_prefix.glob("generations/*/generation.json"))
        choices += [["rollback", str(chance.choice(kept))]]
    return chance.choice(choices)
