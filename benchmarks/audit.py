"""`envmgr audit` beside `clush` (ClusterShell's command) on a test cluster: tests/cluster.

Both sides are whole commands, as a user types them on the login node. They send one and the same script, the audit's
probe, by the same ssh with the same options, 64 at once, without a kept connection. clush prints what comes, its fastest
way: with `-b`, which folds as the audit does, it took twice as long here.

The 1,000 nodes are addresses 127.0.x.y of the login node's sshd. The probe would cost this one machine 1,000 x 0.5 s of CPU,
which is the nodes' time on a real cluster. So this sshd does not run what is sent to it: for either side, it takes all of
it and gives the answer that the probe gave on a real node, filled up to 20 KB, with a clock that goes and, for the audit,
between its markers. What is compared is everything else: start-up, ssh, sshd, taking answers, folding, and the audit's
judging and keeping of facts, which clush does not have to do.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Amount, Claim, NotMeasured, Ratio, Took, alternate
from envmgr.catalog.site_file import Transport
from envmgr.nodes import ssh
from envmgr.nodes.sets import expand
from envmgr.system.files import remove_tree
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.config import NETWORK
from tests.helpers.cluster.needs import reason_to_skip
from tests.helpers.cluster.site import SITE

THREE = "c[1-3]"
THOUSAND = "127.0.[1-4].[1-250]"
DEAD = "10.99.0.[1-128]"
FANOUT = 64
TIMEOUT = 5  # seconds, to connect to a dead node
ANSWER = 20_000  # bytes
MEMORY = 300  # MB

# Runs the rest of its arguments with stdin from the first; prints seconds, status, and MB of the largest of its processes.
_MEASURE = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
with open(sys.argv[1]) as given, open("/tmp/said", "w") as said:
    status = subprocess.run(sys.argv[2:], stdin=given, stdout=said, stderr=said).returncode
took = time.perf_counter() - start
print(json.dumps([took, status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024]))
"""

# What the audit would send, instead of sending it.
_PROBE = """
import os, sys
import envmgr.nodes.fanout
def show(nodes, script, **_):
    print(script, flush=True)
    os._exit(0)
envmgr.nodes.fanout.ask_nodes = show
from envmgr.cli.app import main
sys.argv[1:] = ["audit", *sys.argv[1:]]
main()
"""

# A simulated node. The third word of SSH_CONNECTION is its address.
_NODE = r"""#!/bin/sh
nonce=$(sed -n "s/^envmgr_nonce='\{0,1\}\([0-9A-Za-z]*\).*/\1/p; /^printf .*:end:/q")
[ -z "$nonce" ] || printf '\n--envmgr:%s:begin--\n' "$nonce"
set -- $SSH_CONNECTION
printf '@~host=%s\n' "$3"
date '+@~began=%s.%N%n@~clock.later=%s.%N'
if [ -e /etc/simulated/all-different ]; then
    # a MODULEPATH of its own for every node
    sed "s|/etc/lmod/modules|/etc/lmod/$3|" /etc/simulated/answer
else
    cat /etc/simulated/answer
fi
[ -z "$nonce" ] || printf '\n--envmgr:%s:end:0:4194304--\n' "$nonce"
"""


def claims(runs: int) -> list[Claim]:
    if reason := reason_to_skip():
        return [NotMeasured("audit / clush", reason)]
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    cluster = Cluster(root / "lab")
    try:
        _boot(cluster)
        return [*_three(cluster, runs), *_thousand(cluster, min(runs, 2)), _dead(cluster)]
    finally:
        cluster.down()
        remove_tree(root)


def _boot(cluster: Cluster) -> None:
    """A published generation that every node resolves, in every kind of shell."""
    cluster.up()
    _write_site(cluster, THREE)
    cluster.recipe("hello/1.0", ["python"])
    cluster.recipe("hello/2.0", ["python"], default=True)
    entries = ["hello/1.0", "hello/2.0"]
    for argv in (["lock", *entries], ["build", *entries], ["node-setup", "--apply", "--nodes", THREE]):
        done = cluster.envmgr(argv)
        if done.code:
            sys.exit(f"envmgr {shlex.join(argv)} failed:\n{done.stdout}{done.stderr}")


def _write_site(cluster: Cluster, nodes: str, **transport: Any) -> None:
    """Without login nodes: the audit would look at the host it runs on as well, and clush would not."""
    times = {"connect_timeout": 10, "node_timeout": 60, "deadline": 600, **transport}
    cluster.write_site(groups={"all": {"nodes": nodes}}, login_nodes=None, transport={"fanout": FANOUT, **times})


def _three(cluster: Cluster, runs: int) -> list[Claim]:
    audit, clush = sides(cluster, THREE)
    pairs = alternate(lambda: Took(audit().seconds), lambda: Took(clush().seconds), runs)
    return [Ratio("audit of 3 nodes / clush", pairs, 1.3)]


def _thousand(cluster: Cluster, runs: int) -> list[Claim]:
    _write_site(cluster, THREE)
    simulate(cluster, probe(cluster))
    _write_site(cluster, THOUSAND)
    audit, clush = sides(cluster, THOUSAND)
    done: list[Done] = []

    def ours() -> Took:
        done.append(audit())
        return Took(done[-1].seconds)

    pairs = alternate(ours, lambda: Took(clush().seconds), runs)
    cluster.write("login", "/etc/simulated/all-different", "")
    worst = audit(status=1)
    return [
        Ratio("audit of 1,000 nodes / clush", pairs, 1.3),
        Amount("audit of 1,000 nodes, equal answers", max(d.megabytes for d in done), MEMORY, "MB"),
        Amount("audit of 1,000 nodes, all answers different", worst.megabytes, MEMORY, "MB"),
    ]


def _dead(cluster: Cluster) -> Claim:
    """Their packets go to a router that is off: nothing comes back."""
    router = f"{NETWORK}.253"
    way = (
        f"ip neigh add {router} lladdr 02:00:00:00:00:fd dev eth0 nud permanent; ip route add 10.99.0.0/24 via {router}"
    )
    cluster.sh("login", way, check=True)
    _write_site(cluster, DEAD, connect_timeout=TIMEOUT)
    rounds = math.ceil(len(expand(DEAD)) / FANOUT)
    done = _run(cluster, _AUDIT, status=3)
    name = f"audit of {len(expand(DEAD))} dead nodes / {rounds} times {TIMEOUT} s to connect"
    return Ratio(name, [(Took(done.seconds), Took(rounds * TIMEOUT))], 1.5)


_AUDIT = [sys.executable, "-m", "envmgr", "audit"]


@dataclass(frozen=True, slots=True)
class Done:
    seconds: float
    megabytes: float


def sides(
    cluster: Cluster, nodes: str, *options: str, site: str = str(SITE)
) -> tuple[Callable[..., Done], Callable[[], Done]]:
    """The audit of the site's nodes, or with options, and clush with the same script and the same ssh."""
    cluster.write("login", "/root/probe.sh", probe(cluster, *options, site=site))
    ours = ssh.command(Transport(connect_timeout=10), "NODE", user=None, socket=None)
    flags, script = shlex.join(ours[1 : ours.index("--")]), ours[-1]
    program = Path(sys.executable).with_name("clush")
    argv = [program, "-q", "-f", str(FANOUT), "-o", flags, "-w", nodes, script]

    def clush() -> Done:
        done = _run(cluster, argv, status=0, stdin="/root/probe.sh")
        answers = int(cluster.sh("login", "grep -c ': @gate=ok$' /tmp/said").stdout)
        if answers != len(expand(nodes)):
            sys.exit(f"clush got {answers} answers of {nodes}")
        return done

    return lambda status=0: _run(cluster, [*_AUDIT, *options], status=status, site=site), clush


def probe(cluster: Cluster, *options: str, site: str = str(SITE)) -> str:
    """What `envmgr audit OPTIONS` would send to a node."""
    done = cluster.exec("login", [sys.executable, "-c", _PROBE, *options], env={"ENVMGR_SITE": site}, check=True)
    return done.stdout


def simulate(cluster: Cluster, script: str) -> None:
    """1,000 nodes of the login node's sshd, which answer to `script` as c1 does."""
    told = cluster.exec("c1", ["/bin/sh", "-s"], stdin=script, check=True).stdout.splitlines(keepends=True)
    answer = "".join(line for line in told if not line.startswith(("@~began=", "@~clock.later=", "@~host=")))
    answer += "".join(f"@filled.{number}={'x' * 80}\n" for number in range((ANSWER - len(answer)) // 90))
    cluster.write("login", "/etc/simulated/answer", answer)
    cluster.write("login", "/etc/simulated/node", _NODE, 0o755)
    script = """
        echo "127.0.* $(cut -d' ' -f1-2 /etc/ssh/ssh_host_ed25519_key.pub)" >>/etc/ssh/ssh_known_hosts
        printf 'Match LocalAddress 127.0.0.0/16\\n  ForceCommand /etc/simulated/node\\n' >>/etc/ssh/sshd_config
        kill -HUP "$(cat /run/sshd.pid)"
    """
    cluster.sh("login", script, check=True)


def _run(cluster: Cluster, argv: list[Any], *, status: int, stdin: str = "/dev/null", site: str = str(SITE)) -> Done:
    measured = [sys.executable, "-c", _MEASURE, stdin, *argv]
    done = cluster.exec("login", measured, env={"ENVMGR_SITE": site}, timeout=3600, check=True)
    took, code, megabytes = json.loads(done.stdout)
    if code != status:
        said = cluster.sh("login", "head -c 4000 /tmp/said").stdout
        sys.exit(f"{shlex.join(map(str, argv))}: exit {code}, not {status}\n{said}")
    return Done(took, megabytes)
