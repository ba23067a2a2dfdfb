"""Jobs that ask for a GPU, on nodes that showed their GPUs to no other question.

Slurm's device constraint shows a job only the GPUs that it was given.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from envmgr.audit.ask.ask_nodes import NOT_SENT, Asker, held_back
from envmgr.audit.fit.matrix import hiding, is_hidden, read_gpus
from envmgr.audit.model import Evidence
from envmgr.nodes.access import gpu_request, jobs_with_gpu
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import NO_FLEET, Facts, Fleet, ProbePart, grouped
from envmgr.probe.shell import Folding, join_probes
from envmgr.system.users import find_account

GpuAnswer = tuple[str, bool]
"""The result of the job on a node in words, and whether it was given a GPU and shown none."""


def ask_gpu_jobs(evidence: Evidence, parts: Sequence[ProbePart], asker: Asker) -> Fleet:
    """Return the answers of such jobs to these parts of the probe.

    A node without a job has a reply that says why. All jobs have ended when half of the remaining time is over.
    """
    nodes = hiding(evidence)
    if not parts:
        return NO_FLEET
    refused = dict(why_no_jobs(evidence, nodes))
    end, folding = time.monotonic() + asker.left / 2, Folding(nodes)
    if asked := [node for node in nodes if node not in refused]:
        jobs = jobs_with_gpu(asked, evidence.site.transport.slurm_options, asker.runner, timeout=asker.left / 2)
        refused |= jobs.refused
        plan = replace(evidence.plan, contexts=(), accounts=("user",))
        script = join_probes(parts, plan, stages=("node",))
        alike = grouped((options, node) for node, options in jobs.options.items())
        sending = [partial(asker.send, of, script, plan, folding, "ALL", options=o, end=end) for o, of in alike.items()]
        asker.send_all("jobs with a GPU", len(jobs.options), sending)
    now = time.time()
    for node, why in refused.items():
        folding(Reply(node, "unreachable", "", f"{NOT_SENT}{why}", now, now))
    return folding.fleet()


def why_no_jobs(evidence: Evidence, nodes: Sequence[str]) -> dict[str, str]:
    """Return node -> the reason why it must get no such job, as far as it is known before Slurm is asked."""
    user = evidence.plan.user
    if not evidence.site.audit.gpu_jobs:
        return dict.fromkeys(nodes, "`audit.gpu_jobs` is false in site.yaml")
    if os.geteuid() == 0 and find_account(user) is None:
        return dict.fromkeys(nodes, f"the user {user} does not exist here")
    jobs = [*evidence.ways.values()][1:]
    lost = {reply.node: f"another job there has no answer: {reply.reason}" for of in jobs for reply in of.missing}
    for fleet in (evidence.fleet, evidence.mounts):
        lost |= held_back(fleet.nodes, fleet)
    return {node: lost[node] for node in nodes if node in lost}


def gpu_answers(evidence: Evidence) -> Mapping[str, GpuAnswer]:
    """Return node -> the result, for nodes on which a job with a GPU was wanted."""
    fleet, job = evidence.gpu_jobs, f"a job with `{gpu_request(evidence.site.transport.slurm_options)}`"
    found = {node: _answer(job, facts, fleet.own.get(node, {})) for node, facts in fleet.told.items()}
    why = {reply.node: f"{job} gave no answer: {reply.reason}" for reply in fleet.missing}
    return found | {node: (text, False) for node, text in why.items()}


def _answer(job: str, facts: Facts, own: Facts) -> GpuAnswer:
    known = dict.fromkeys(f"{gpu.name} ({gpu.arch})" for gpu in read_gpus(facts) if gpu.arch)
    said = facts.get("fitness.smi", "")
    if known:
        return f"{job} was shown {', '.join(known)}", False
    if not said:
        return f"{job} saw no compute capability", False
    words = "does not answer" if said == "hung" else f"says `{said}`"
    visible = f", CUDA_VISIBLE_DEVICES is {own.get('fitness.visible', 'not set')}" if is_hidden(facts) else ""
    return f"{job} sees none either: nvidia-smi {words}{visible}", True
