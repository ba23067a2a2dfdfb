"""sshd lets an ordinary user in.

The audit itself logs in as an administrator, who may enter where users may not. So each node is entered once more, by a real
ssh of the user from the node to itself: through AllowUsers, AllowGroups and their like, through PAM, and with the user's
own keys. It is an error if a node does not let the user in, or a command there does not run or has no `module`, and a like node does.

A site may choose that users enter no compute node at all, or only nodes where they have a job (pam_slurm_adopt): that is
no fault. What else differs in /etc/ssh, the keys of known hosts among it, is compared in the inventory.
"""

from __future__ import annotations

from dataclasses import replace

from envmgr.audit.like_nodes import as_on, values_of_like_nodes
from envmgr.audit.model import Check, Evidence, Rows, scripts
from envmgr.probe.model import CONTEXTS

_WELL = ("in", "no job")
_COMMAND = next(context for context in CONTEXTS if context.name == "bash-ssh")


def judge(evidence: Evidence) -> Rows:
    for values in values_of_like_nodes(evidence.fleet.by_value("ssh.user"), evidence):
        for said, nodes in values.items():
            if "in" in values and said not in _WELL:
                yield evidence.say("refused", nodes, said=said, right=as_on(values["in"]))
    for values in values_of_like_nodes(evidence.fleet.by_value("ssh.runs"), evidence):
        most = max(values, key=len)
        for runs in sorted(values.keys() - {most}):
            shell = replace(evidence.user_login, context=_COMMAND) if runs else None
            said = "has no `module`" if runs else "does not run"
            yield evidence.say("lacks", values[runs], shell, said=said, right=as_on(values[most]))


CHECK = Check(judge=judge, probe=scripts(__file__, "node"))
