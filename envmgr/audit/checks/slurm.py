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
from envmgr.probe.model import grouped

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
    states = ((node, *slurm.states.get(name, ("", ""))) for node, name in names.items())
    # Without the flags that the row already expresses. The one for no response stays.
    plain = (((state.rstrip(_FLAGS), "*" * ("*" in state), reason), node) for node, state, reason in states)
    for (state, silent, reason), nodes in grouped(plain).items():
        if row := "silent" if silent else _ROWS.get(state.lower()):
            said = in_words((state + silent, reason))
            yield evidence.say(row, nodes, state=said, names=fold(names[node] for node in nodes))


CHECK = Check(judge=judge, wants=frozenset({"slurm"}))
