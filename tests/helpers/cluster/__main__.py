"""`python -m tests.helpers.cluster up|shell|down|status`: a test cluster to walk around in, which stays until `down`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import get_args

from tests.helpers.cluster.cluster import Cluster, Share
from tests.helpers.cluster.needs import reason_to_skip
from tests.helpers.places import CACHE

FOLDER = CACHE / "cluster"

WAYS_IN = """\
  make cluster-shell                    root on the login node; from there `ssh c1`, `srun -N3 hostname`
  make cluster-shell NODE=c1 AS=alice   a user on a compute node
  make cluster-down                     ends it, with everything in it
"""
_WELCOME = """\
{nodes} are up; {prefix} comes to them by {share}.
{ways}\
On the login node `envmgr` is this checkout's, and its site is {site}.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.helpers.cluster", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="boot it")
    up.add_argument("-N", dest="nodes", type=int, default=3, help="compute nodes")
    up.add_argument("--share", choices=get_args(Share), default="bind")
    up.add_argument("--mount-options", default="")
    shell = verbs.add_parser("shell", help="a login shell on a node")
    shell.add_argument("--node", default="login")
    shell.add_argument("--user", default="root")
    verbs.add_parser("down", help="end it")
    verbs.add_parser("status", help="its nodes, as Slurm sees them")
    args = parser.parse_args()
    there = (FOLDER / "state.json").exists()
    if args.verb == "up":
        return _up(args.nodes, args.share, args.mount_options)
    if not there:
        print("no cluster is up: make cluster-up", file=sys.stderr)
        return 0 if args.verb == "down" else 3
    cluster = Cluster.attach(FOLDER)
    if args.verb == "down":
        cluster.down()
        return 0
    if not cluster.running():
        print("the cluster has died (a reboot?): make cluster-down cluster-up", file=sys.stderr)
        return 3
    if args.verb == "status":
        for node in cluster.names:
            alive = cluster.alive(node)
            print(node, f"pid {cluster.pid(node)}" if alive else "dead", cluster.slurm_state(node) if alive else "")
        return 0
    return cluster.interactive(args.node, ["bash", "-l"], user=args.user)


def _up(nodes: int, share: Share, mount_options: str) -> int:
    if reason := reason_to_skip():
        print(reason, file=sys.stderr)
        return 3
    if is_taken(FOLDER):
        print("a cluster is up already: make cluster-shell, or make cluster-down", file=sys.stderr)
        return 3
    cluster = Cluster(FOLDER, nodes=nodes, share=share, mount_options=mount_options)
    cluster.up(detached=True)
    cluster.write_site()
    cluster.put_envmgr_on_path()
    print(
        _WELCOME.format(
            nodes=", ".join(cluster.names),
            prefix=cluster.prefix,
            share=share,
            ways=WAYS_IN.replace("-N3", f"-N{nodes}"),
            site="/etc/envmgr/site.yaml",
        ),
        end="",
    )
    return 0


def is_taken(folder: Path) -> bool:
    """Whether a cluster runs in the folder; what a dead one left there is removed."""
    if not folder.exists():
        return False
    if (cluster := Cluster.attach(folder)).running():
        return True
    cluster.down()
    return False


if __name__ == "__main__":
    sys.exit(main())
