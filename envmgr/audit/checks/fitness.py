"""Requirements of each published entry against each node's driver, GPUs, glibc and CPU, as a matrix of entries x nodes.

The NVIDIA driver must be at least the recipe's `requires.nvidia_driver`, which follows NVIDIA's minor-version rule. One
GPU must have a compute capability with the same major number as one in `requires.compute_capability`, and a minor
number that is not lower. The node's glibc and x86-64 level must be at least what is required. A node without driver and
GPU (a login node) is no fault: there an entry does what it does without a GPU. Facts that are not known of a node do
not count against it.

An entry that no node can run is an error. A node that cannot run what other nodes of its group run is an error, too. An
entry that a whole group cannot run while other nodes can is a note. The check reports nodes of one group that differ in
driver, GPUs, glibc or CPU level, and a node with another operating system: an error if entries get other versions of
the system's libraries there (the check `libraries` asks the loader). A GPU without a driver is an error. So is a driver that `nvidia-smi` cannot talk to
(often an update without a reboot).

GPUs that the driver lists, and `nvidia-smi` shows to nobody who asked, are a note: Slurm's or sshd's device constraint
hides them. If Slurm has a free GPU on such a node, a job with `--gres=gpu:1` is asked, and its answer counts.
`audit.gpu_jobs: false` in site.yaml forbids such jobs. A job that is given a GPU and shown none is a warning.

The facts are kept in `var/audit/nodes.json` under the prefix, where `envmgr build --gate` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from envmgr.audit.ask.gpu_jobs import gpu_answers
from envmgr.audit.fit.matrix import hiding, is_hidden, observed, required
from envmgr.audit.look import Said, SaidOf, folded, say
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.table import hint_by
from envmgr.catalog.fitness import NodeFacts, NodeNeeds, Verdict, judge_gpu, level_flags, unfit, without_gpu
from envmgr.catalog.gpus import FLOORS, toolkit_driver
from envmgr.nodes.access import gpu_request
from envmgr.nodes.sets import fold
from envmgr.probe.model import grouped
from envmgr.system.files import shipped
from envmgr.system.shelltext import assign, script_text

SMI_SECONDS = 6  # without its persistence daemon a driver needs one or two to wake up


def probe(plan: AuditPlan) -> ProbeTexts:  # noqa: ARG001 - the same for every plan
    flags = sorted({flag for needed in level_flags().values() for flag in needed} | {"pni"})
    gpus = assign(fitness_seconds=SMI_SECONDS) + (shipped("nodesetup") / "gpus.sh").read_text("utf-8")
    gpus += script_text(__file__, "gpus.sh")
    return {"gpus": gpus, "node": gpus + assign(fitness_flags="|".join(flags)) + script_text(__file__, "node.sh")}


def judge(evidence: Evidence) -> Rows:
    told, places = observed(evidence), _places(evidence)
    yield from folded(((said, nodes) for facts, nodes in told.items() for said in _node(facts)), evidence)
    yield from folded(_smi(evidence), evidence)
    for entry, needs in required(evidence):
        yield from folded(_entry(entry, needs, told, places, evidence), evidence)


def _node(facts: NodeFacts) -> Iterator[Said]:
    """Yield a driver that does not work, whatever is published."""
    if count := sum(gpu.vendor == "nvidia" and gpu.driver == "" for gpu in facts.gpus):
        gpus = "the node's GPU" if count == 1 else f"the node's {count} GPUs"
        yield say("not_driven" if facts.driver else "no_driver", driver=facts.driver, gpus=gpus)


def _smi(evidence: Evidence) -> Iterator[SaidOf]:
    """Yield `nvidia-smi` that fails. GPUs that are hidden from who asks are no fault, but from the job that has them."""
    answers, listing = gpu_answers(evidence), hiding(evidence)
    job = gpu_request(evidence.site.transport.slurm_options)
    for said, nodes in evidence.fleet.by_value("fitness.smi").items():
        if said == "hung":
            yield say("smi_hangs", seconds=SMI_SECONDS), nodes
        elif not is_hidden({"fitness.smi": said}):
            yield say("smi_fails", said=said), nodes
        for node in nodes if is_hidden({"fitness.smi": said}) else ():
            answer, is_fault = answers.get(node, ("", False))
            if is_fault:
                yield say("none_in_a_job", answer=answer), [node]
            elif answer or node in listing:
                yield say("hidden", answer=f"; {answer}" if answer else "", job=job), [node]


def _entry(
    entry: str,
    needs: NodeNeeds,
    told: Mapping[NodeFacts, Sequence[str]],
    places: Mapping[str, frozenset[str]],
    evidence: Evidence,
) -> Iterator[SaidOf]:
    """Yield why nodes cannot run an entry, or not with all it has. The check `libraries` reports missing libraries."""
    reasons = {facts: unfit(needs, facts) for facts in told}
    able = (nodes for facts, nodes in told.items() if not reasons[facts] and not without_gpu(needs, facts))
    right = [node for nodes in able for node in nodes]
    with_right = {place for node in right for place in places[node]}
    expected = f"as on {fold(right)}" if right else "a node that can run it; none of these can"
    for facts, nodes in told.items():
        by_design = [node for node in nodes if right and not places[node] & with_right]
        at_fault = [node for node in nodes if node not in by_design]
        for reason in reasons[facts]:
            if at_fault:
                fix = _hint(reason, evidence)
                yield say("cannot_run", entry=entry, reason=reason, right=expected, fix=fix), at_fault
            if by_design:
                yield say("by_design", entry=entry, reason=reason, right=fold(right)), by_design
        judged = judge_gpu(needs, facts)
        if judged is None or judged.refused:
            continue
        if judged.verdict == Verdict.NO_JIT and needs.gpu is not None:
            branch = toolkit_driver(needs.gpu.cuda or "").partition(".")[0]
            newer = f"of branch {branch} or newer" if branch else "that knows it"
            yield say("no_jit", entry=entry, reason=judged.reason, newer=newer), nodes


def _places(evidence: Evidence) -> dict[str, frozenset[str]]:
    """Return node -> its groups in site.yaml. Nodes that are in no group form one group."""
    found = grouped((node, name) for name, members in evidence.groups.items() for node in members)
    return {node: frozenset(found.get(node, ("",))) for node in {*found, *evidence.nodes}}


def _hint(reason: str, evidence: Evidence) -> str:
    driver = reason.partition(" is older than ")[2].partition(",")[0]
    cuda = next((f" (CUDA {major})" for major, floor in FLOORS.items() if floor == driver), "")
    return hint_by(evidence.table.words, reason, driver=driver, cuda=cuda)


CHECK = Check(judge=judge, probe=probe)
