"""Jobs that ask for a GPU, on nodes that showed their GPUs to no other question.

Slurm's device constraint shows a job only the GPUs that it was given.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from envmgr.audit.ask.ask_nodes import NOT_SENT, Asker, why_not
from envmgr.audit.fit.matrix import hiding, is_hidden, read_gpus
from envmgr.audit.model import Evidence
from envmgr.nodes.access import gpu_request, jobs_with_gpu
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import Facts, Fleet, ProbePart
from envmgr.probe.shell import GATE_SECONDS, Folding, join_probes
from envmgr.system.users import find_account

_LEAST = 2 * GATE_SECONDS  # seconds: with fewer left a job is not worth its start
_NO_START = "the job did not start"  # in a reply's reason: the job waited, and was cancelled


@dataclass(frozen=True, slots=True)
class GpuAnswer:
    """The result of the job on a node, in words. `shown`: it was shown a GPU; `none`: it was given one, and shown
    none.
    """

    kind: Literal["shown", "none", "unknown"]
    text: str


def ask_gpu_jobs(evidence: Evidence, parts: Sequence[ProbePart], asker: Asker) -> Fleet | None:
    """Return the answers of such jobs to these parts of the probe; None if no node hides its GPUs.

    A node without a job has a reply that says why.
    """
    nodes = hiding(evidence)
    if not nodes:
        return None
    refused = dict(why_no_jobs(evidence, nodes, asker.left))
    asked = [node for node in nodes if node not in refused]
    folding = Folding(nodes)
    if asked:
        jobs = jobs_with_gpu(asked, evidence.site.transport.slurm_options, asker.runner, timeout=asker.left / 2)
        refused |= jobs.refused
        if jobs.options:
            plan = replace(evidence.plan, contexts=(), accounts=("user",))
            asker.gpu_jobs(jobs.options, join_probes(parts, plan, stages=("node",)), plan, folding)
    now = time.time()
    for node, why in refused.items():
        folding(Reply(node, "unreachable", "", f"{NOT_SENT}{why}", now, now))
    return folding.fleet()


def why_no_jobs(evidence: Evidence, nodes: Sequence[str], left: float) -> dict[str, str]:
    """Return node -> the reason why it must get no such job, as far as it is known before Slurm is asked.

    `left` are seconds until the deadline.
    """
    user = evidence.plan.user
    if not evidence.site.audit.gpu_jobs:
        return dict.fromkeys(nodes, "`audit.gpu_jobs` is false in site.yaml")
    if left < _LEAST:
        return dict.fromkeys(nodes, "the deadline is too near")
    if os.geteuid() == 0 and find_account(user) is None:
        return dict.fromkeys(nodes, f"the user {user} does not exist here")
    found: dict[str, str] = {}
    for fleet in list(evidence.ways.values())[1:]:
        found |= {reply.node: f"another job there has no answer: {reply.reason}" for reply in fleet.missing}
    for fleet in (evidence.fleet, evidence.mounts):
        for group in fleet.groups:
            found |= {node: why_not(node, fleet) for node in group.nodes if _hangs(group.facts)}
    return {node: found[node] for node in nodes if node in found}


def _hangs(facts: Facts) -> bool:
    """Return whether a mount hangs, or may hang: a job that hangs on it drains its node."""
    return (
        facts.get("gate", "hung") == "hung" or facts.get("prefix.end", "").startswith("no end") or "mount.hung" in facts
    )


def gpu_answers(evidence: Evidence) -> Mapping[str, GpuAnswer]:
    """Return node -> the result, for nodes on which a job with a GPU was wanted."""
    fleet = evidence.gpu_jobs
    if fleet is None:
        return {}
    job = f"a job with `{gpu_request(evidence.site.transport.slurm_options)}`"
    found = {node: _answer(job, group.facts, fleet.own.get(node, {})) for group in fleet.groups for node in group.nodes}
    return found | {reply.node: GpuAnswer("unknown", f"{job} {_lost(reply)}") for reply in fleet.missing}


def _answer(job: str, facts: Facts, own: Facts) -> GpuAnswer:
    known = dict.fromkeys(f"{gpu.name} ({gpu.arch})" for gpu in read_gpus(facts.get("fitness.gpus", "")) if gpu.arch)
    said = facts.get("fitness.smi", "")
    if known:
        return GpuAnswer("shown", f"{job} was shown {', '.join(known)}")
    if is_hidden(facts):
        devices = own.get("fitness.visible", "")
        visible = f"CUDA_VISIBLE_DEVICES is {devices}" if devices else "CUDA_VISIBLE_DEVICES is not set"
        return GpuAnswer("none", f"{job} sees none either: nvidia-smi says `{said}`, {visible}")
    if said:
        return GpuAnswer(
            "none", f"{job} sees none either: nvidia-smi {'does not answer' if said == 'hung' else f'says `{said}`'}"
        )
    return GpuAnswer("unknown", f"{job} saw no compute capability")


def _lost(reply: Reply) -> str:
    if reply.reason.startswith(NOT_SENT):
        return f"was not sent: {reply.reason.removeprefix(NOT_SENT)}"
    return f"was cancelled: {reply.reason}" if _NO_START in reply.reason else f"gave no answer: {reply.reason}"
