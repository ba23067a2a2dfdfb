"""What a user of a cluster does, the same each time: log in, by bash and csh, a command over ssh, two jobs; and what came of it on each node.

A variable that no program of these reads is noticed by nobody.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from tests.helpers.cluster import Cluster

USER = "alice"
# For bash: what modules give, whether two programs start, and whether there is room where users write.
BASH = """\
umask; ulimit -a; id; date +%Z; pwd; trap; echo "IFS=$IFS flags=$-"
type -t module ml ls; alias; module -t avail 2>&1
for name in hello/1.0 hello gcc; do module load $name; echo "load $name: $?"; done; module -t list 2>&1
python -c 'print(1)'; echo "python: $?"; gcc-run; echo "gcc: $?"
for at in ~ ${TMPDIR:-/tmp} /dev/shm; do head -c 65536 /dev/zero >$at/.a$$ && echo "room in $at"; rm -f $at/.a$$; done
"""
CSH = "umask; limit; module load hello; python -c 'print(1)'; echo python: $status\n"
_SECONDS = "30"
Looks = Mapping[str, Mapping[str, tuple[str, ...]]]
"""node -> action -> status and lines."""


def look(cluster: Cluster) -> Looks:
    """What all actions give now; those that hang have the status 124."""
    nodes = ("login", *cluster.compute)
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(nodes, pool.map(lambda node: _on(cluster, node), nodes), strict=True))


def _on(cluster: Cluster, node: str) -> dict[str, tuple[str, ...]]:
    ssh = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", node]
    srun = ["srun", "-Q", "--immediate=15", "-w", node]
    asked = {
        "login": (node, "root", ["su", "-l", USER, "-c", BASH]),
        "csh": (node, "root", ["su", "-l", USER, "-s", "/usr/bin/tcsh", "-c", CSH]),
        "ssh": ("fs1", USER, [*ssh, BASH]),  # from a host that no drift is put on
    }
    if node != "login":
        asked["job"] = ("login", USER, ["bash", "-lc", 'exec "$@"', "bash", *srun, "bash", "-c", BASH])
        asked["job of nothing"] = ("login", USER, [*srun, "--export=NONE", "bash", "-lc", BASH])
    return {action: _said(cluster, *of) for action, of in asked.items()}


def _said(cluster: Cluster, node: str, user: str, argv: list[str]) -> tuple[str, ...]:
    try:
        done = cluster.exec(node, ["timeout", "-k1", _SECONDS, *argv], user=user, timeout=60)
    except subprocess.TimeoutExpired:
        return ("124",)
    return (str(done.returncode), *done.stdout.splitlines(), *done.stderr.splitlines())


def steady(*looks: Looks) -> frozenset[str]:
    """What a line begins with that is another each time, up to its `=`: numbers of jobs, ports, times."""
    lines: list[set[str]] = [{line for of in one.values() for said in of.values() for line in said} for one in looks]
    every, always = set[str]().union(*lines), lines[0].intersection(*lines)
    return frozenset(line.partition("=")[0] for line in every - always)


def noticed(before: Looks, after: Looks, unsteady: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """Node -> the actions that gave another status or other lines."""

    def lines(said: tuple[str, ...]) -> list[str]:
        return sorted(line for line in said if line.partition("=")[0] not in unsteady)

    found = {
        node: tuple(action for action in of if lines(of[action]) != lines(after[node][action]))
        for node, of in before.items()
    }
    return {node: actions for node, actions in found.items() if actions}
