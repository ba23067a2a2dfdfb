"""What an audit could leave behind on a cluster."""

from __future__ import annotations

from tests.helpers.cluster import Cluster


def traces(cluster: Cluster) -> set[str]:
    """Its processes and folders on nodes, and jobs."""
    found = {f"job {line}" for line in cluster.exec("login", ["squeue", "-h"]).stdout.splitlines()}
    for node in cluster.compute:
        found |= {f"{node}: {line}" for line in cluster.processes(node) if "envmgr-audit" in line}
        listed = cluster.sh(node, "find /tmp -path '/tmp/envmgr-*' ! -path '/tmp/envmgr-build-*'")
        found |= {f"{node}: {line}" for line in listed.stdout.splitlines()}
    return found
