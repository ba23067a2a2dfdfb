"""One job that is submitted as users do: from a login shell with a module loaded, and without an option for exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envmgr.audit.ask.ask_nodes import Asker, held_back
from envmgr.audit.plan import AuditPlan
from envmgr.nodes.slurm import slurm_names, states_or_reason
from envmgr.probe.model import NO_FLEET, Fleet, ProbePart
from envmgr.probe.shell import Folding, join_probes
from envmgr.system.shelltext import assign, script_text


def ask_as_users(
    nodes: Sequence[str], clean: Fleet | None, plan: AuditPlan, parts: Sequence[ProbePart], asker: Asker
) -> Fleet:
    """Return the answer of such a job to these parts of the probe, from one node that is fit for jobs, if one is."""
    unfit = held_back(nodes, clean)
    states, _ = states_or_reason(asker.runner, asker.left)
    names = slurm_names(states, [node for node in nodes if node not in unfit])
    # The last idle one: jobs of the audit are submitted to the first nodes first.
    ordered = sorted(names, key=lambda node: states[names[node]][0].startswith("idle"))
    if not ordered or not parts:
        return NO_FLEET
    folding = Folding(ordered[-1:])
    script = join_probes(parts, replace(plan, contexts=(), accounts=("user",)), stages=("node",))
    prepare = assign(envmgr_entry=plan.first) + script_text(__file__, "prepare.sh")
    asker.send(ordered[-1:], script, plan, folding, None, prepare=prepare)
    return folding.fleet()
