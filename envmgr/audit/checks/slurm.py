"""Slurm's own word on its nodes: it does not answer this host, or it does not use a node.

The states are those of `sinfo`, and are wrong even if all nodes have them. A node that is down, fails or does not
respond gets no jobs: an error. A drained node was taken out by an administrator, or by Slurm itself after a job that it
could not end: a warning, with Slurm's reason. Slurm's name of a node may lack its domain.

All else that Slurm has of a node is compared with like nodes in the inventory: its partitions, features, GPUs, cores and
reservations, its files in /etc/slurm, what slurmd runs around jobs, slurmd's variables, and plugins.
"""

from __future__ import annotations

from collections.abc import Mapping

from envmgr.audit.model import Check, Evidence, Rows
from envmgr.nodes.sets import fold
from envmgr.nodes.slurm import in_words, slurm_names

# The row for each state. Source: sinfo(1), NODE STATE CODES. The flags: * no response, ~ # ! % power, $ maintenance, @ ^
# reboot, - planned.
_FLAGS = "*~#!%$@^-"
_ROWS: Mapping[str, str] = {
    **dict.fromkeys("down error fail failing inval unknown no_respond future".split(), "down"),
    **dict.fromkeys("drain draining drained".split(), "drained"),
}


def judge(evidence: Evidence) -> Rows:
    slurm = evidence.slurm
    if slurm.broken:
        yield evidence.say("broken", said=slurm.broken)
    names = slurm_names({**slurm.rows, **slurm.states}, evidence.nodes)
    found: dict[tuple[str, str], list[str]] = {}
    for node, name in names.items():
        state, reason = slurm.states.get(name, ("", ""))
        row = "silent" if "*" in state else _ROWS.get(state.lower().rstrip(_FLAGS), "")
        if row:
            # Without the flags that the row already expresses. The one for no response stays.
            plain = state.rstrip(_FLAGS) + "*" * ("*" in state)
            found.setdefault((row, in_words((plain, reason))), []).append(node)
    for (row, state), nodes in found.items():
        yield evidence.say(row, nodes, state=state, names=fold(names[node] for node in nodes))


CHECK = Check(judge=judge, wants=frozenset({"slurm"}))
