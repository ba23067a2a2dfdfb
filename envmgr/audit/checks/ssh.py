"""sshd lets an ordinary user in.

The audit itself logs in as an administrator, who may enter where users may not. So each node is entered once more, by a real
ssh of the user from the node to itself: through AllowUsers, AllowGroups and their like, through PAM, and with the user's
own keys. It is an error if a node does not let the user in, or a command there does not run or has no `module`, and a like node does.
A login node must let the user in if a compute node does.

A site may choose that users enter no compute node at all, or only nodes where they have a job (pam_slurm_adopt): that is
no fault. What else differs in /etc/ssh, the keys of known hosts among it, is compared in the inventory.
"""

from __future__ import annotations

from dataclasses import replace

from envmgr.audit.inventory.differences import as_on, values_of_like_nodes
from envmgr.audit.model import Check, Evidence, Rows, scripts
from envmgr.probe.model import CONTEXTS


def judge(evidence: Evidence) -> Rows:
    told, runs = evidence.fleet.by_value("ssh.user"), evidence.fleet.by_value("ssh.runs")
    here = evidence.here.among(evidence.login)
    of_login = {**here.by_value("ssh.user"), "in": told.get("in", ())}
    for values in (*values_of_like_nodes(told, evidence), of_login):
        for said in sorted(values.keys() - {"in", "no job"}) if values.get("in") else ():
            yield evidence.say("refused", values[said], said=said, right=as_on(values["in"]))
    at = replace(evidence.user_login, context=next(each for each in CONTEXTS if each.name == "bash-ssh"))
    right = {said: runs[said] for said in runs if "module" in said.split()}
    for values in (*values_of_like_nodes(runs, evidence), {**here.by_value("ssh.runs"), **right} if right else {}):
        well = not right.keys().isdisjoint(values)
        for said in sorted(values.keys() - right.keys()) if well or evidence.published else ():
            if (words := said.split())[1:] or well:
                what = "has no `module`" if words[1:] else "does not run"
                yield evidence.say("lacks", values[said], at, None if well else "warning", said=what, program=words[0])


CHECK = Check(judge=judge, probe=scripts(__file__, "node"))
