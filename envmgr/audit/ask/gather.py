"""Collection of the evidence: one script, joined from all checks, runs on every node and in every context.

Equal answers are folded. Order matters where a prefix may hang. First ssh is asked, where hanging processes are left
behind. Then real batch jobs are sent, only to nodes whose prefix answered: a job stuck on a mount drains its node.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from envmgr.audit.ask.ask_nodes import Asker, held_back, log_part, nodes_to_ask
from envmgr.audit.ask.expected_generation import read_published, with_published
from envmgr.audit.ask.gpu_jobs import ask_gpu_jobs
from envmgr.audit.ask.submit_hosts import SubmitHosts, submit_hosts, this_host
from envmgr.audit.baseline import Baseline
from envmgr.audit.controller import Controller, SlurmView
from envmgr.audit.fit.matrix import groups_by_kind
from envmgr.audit.inventory.sections import filled, nodes_of, sections_of
from envmgr.audit.inventory.texts import kinds_part
from envmgr.audit.model import Asked, Check, Evidence, audit_parts, standing_alone
from envmgr.audit.plan import AuditPlan, AuditRequest, PublishedGeneration
from envmgr.audit.second_look import LookAgain, Seen, Wanted, second_look_part
from envmgr.audit.shell.shared_shell import expected_effects
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.lmod import Lmod
from envmgr.nodes.sets import NodeSets, fold
from envmgr.nodes.slurm import submitting_nodes
from envmgr.probe.model import NO_FLEET, Facts, Fleet, ProbePart, ProbeStage, ShellAccount, Way, choose_contexts
from envmgr.probe.prefix import attribute_cache, look_here, newer_generations
from envmgr.probe.shell import GATE_SECONDS, join_probes, part_seconds
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner
from envmgr.system.usernames import own_name

_MANY = 64  # nodes that tell what they have by digests: fewer tell it whole


def gather(
    request: AuditRequest,
    checks: Mapping[str, Check],
    site: Site,
    lmod: Lmod | None,
    runner: Runner,
    reporter: Reporter,
    baseline: Baseline | None = None,
) -> tuple[Evidence, LookAgain]:
    """Ask the nodes. `baseline` is that of the request. Returns the evidence, and a function that looks again at nodes.

    The call ends within the site's deadline and a few seconds, even if something hangs.

    Raises:
        InputError: unknown nodes, contexts or entries; `unknown-node` for the reference.
        EnvmgrError: the published generation is damaged, groups cannot be read.
    """
    end = time.monotonic() + site.transport.deadline
    via = request.via or site.transport.via
    ways: tuple[Way, ...] = ("ssh", "slurm") if via == "both" else (via,)
    user, accounts = (own_name(), ("user",)) if request.here else _accounts(site)
    sets = NodeSets(site, runner, site.transport.deadline)
    nodes = (this_host(),) if request.here else sets.resolve(request.nodes)
    of_a_day = request.drawn and not (request.baseline or request.save_baseline)
    plan = AuditPlan(
        prefix=str(site.prefix),
        user=user,
        build_user=site.build_user or "",
        accounts=accounts,
        site=site,
        request=request,
        seconds=part_seconds(site.transport.node_timeout),
        contexts=choose_contexts(request.contexts, ways),
        init=str(lmod.package / "init") if lmod else "",
        shells=(*site.audit.shells, *request.contexts),
        day=int(time.time() // 86400) if of_a_day else 0,
        salt=secrets.token_hex(8),
        by_digest="ssh" in ways and len(nodes) >= _MANY and not (request.baseline or request.save_baseline),
    )
    if request.reference and request.reference not in nodes:
        said = f"{request.reference} is not among the nodes of this audit"
        hint = "name one of them with `--reference`, or add it to `--nodes`"
        raise InputError("unknown-node", said, context=fold(nodes), hint=hint)
    login: tuple[str, ...] = ()
    if not request.here:
        named = site.login_nodes
        login = sets.resolve(named) if named is not None else submitting_nodes(runner) if "slurm" in ways else ()
    hosts = submit_hosts(nodes, login, all_of_them=request.nodes is None, sends_jobs="slurm" in ways)
    asker = Asker(site, runner, reporter, end, this_host() if request.here else hosts.here)
    controller = look_here(plan, runner, asker.left)
    prefix = Prefix(site.prefix)
    published = read_published(prefix, runner, asker.left, request.generation) if controller["gate"] == "ok" else None
    # This host shows that nothing was ever published, but not if the mount that the site names is missing here.
    never = controller.get("never") == "yes" and site.mount.source in (None, controller.get("mount.source"))
    if never and not any("published" in checks[name.replace("_", "-")].wants for name in request.checks):
        plan, checks = replace(plan, alone=True), standing_alone(checks)
        controller = {**controller, "gate": "ok"}
    if published is not None:
        plan = with_published(plan, published)
    gathering = _Gathering(asker, checks, nodes, hosts, ways, lmod)
    evidence = gathering.evidence(plan, published, controller)
    if published is not None and newer_generations(evidence.mounts, published.record.number):
        # This host's own mount may be late.
        asker.sleep(min(attribute_cache(controller, site.mount.attribute_cache), asker.left / 2))
        again = read_published(prefix, runner, asker.left, request.generation)
        if again is not None and again.record.number != published.record.number:
            evidence = gathering.evidence(with_published(plan, again), again, controller)
    here = Controller(runner, sets, jobs="slurm" in ways, end=end)
    slurm = here.slurm() if any("slurm" in check.wants for check in checks.values()) else SlurmView()
    evidence = replace(evidence, groups=_groups(sets, reporter), baseline=baseline, slurm=slurm)
    evidence = replace(evidence, kinds={} if evidence.groups else groups_by_kind(evidence))
    answers = {name: check.ask_controller(here, evidence) for name, check in checks.items()}
    gpu_jobs = ask_gpu_jobs(evidence, _for_jobs("gpus", checks, plan), asker)
    evidence = replace(evidence, answers=answers, gpu_jobs=gpu_jobs)
    return evidence, partial(_look_again, asker, evidence)


@dataclass(frozen=True, slots=True)
class _Gathering:
    """Asks the nodes `ways`, and `hosts` that send jobs."""

    asker: Asker
    checks: Mapping[str, Check]
    nodes: tuple[str, ...]
    hosts: SubmitHosts
    ways: Sequence[Way]
    lmod: Lmod | None

    def evidence(self, plan: AuditPlan, published: PublishedGeneration | None, controller: Facts) -> Evidence:
        asker, hosts = self.asker, self.hosts.asked
        parts = audit_parts(self.checks.values(), plan)
        over_ssh = tuple(c for c in plan.contexts if c.way == "ssh")
        in_jobs = tuple(c for c in plan.contexts if c.way == "slurm")
        asked: list[Asked] = [(c, a, "ssh") for c in over_ssh for a in plan.accounts if a in c.accounts]
        into_shells = any("context" in part.texts for part in parts)
        script = join_probes(parts, replace(plan, contexts=over_ssh))
        of_node = join_probes(parts, replace(plan, contexts=()), stages=("node",))
        look, as_users, in_job = None, NO_FLEET, NO_FLEET
        with ThreadPoolExecutor(2) as pool:  # while nodes answer
            loading = pool.submit(self._loads_here, plan)
            if "ssh" in self.ways:
                told = asker.ssh((*self.nodes, *hosts), script, published)
            else:
                beside = pool.submit(asker.ssh, hosts, script, label="login nodes")
                if asker.site.transport.via != "slurm":  # a job stuck on a mount would drain its node
                    look = asker.ssh(self.nodes, of_node, label="looking first, over ssh")
                told = beside.result()
            plan = replace(plan, loads=loading.result())
        if plan.by_digest:
            told = _with_sections(told, plan, asker)
        found = {"ssh": told.among(self.nodes)} if "ssh" in self.ways else {}
        logs: Mapping[str, str] = {}
        if "slurm" in self.ways:
            began, clean = time.monotonic(), found.get("ssh", look)
            with ThreadPoolExecutor(2) as pool:
                of_job = _for_jobs("job", self.checks, plan)
                canary = pool.submit(asker.as_users, self.nodes, clean, plan, of_job, plan.first)
                # At once: what hangs would have kept it waiting.
                kept_out = [r.node for r in found.get("ssh", NO_FLEET).missing if r.ended - r.began < GATE_SECONDS]
                inside = pool.submit(asker.in_jobs, kept_out, of_node, plan)
                found |= asker.slurm(self.nodes, clean, plan, parts, in_jobs, whole="ssh" not in self.ways)
                as_users, in_job = canary.result(), inside.result()
            asked += [(c, "user", "slurm" if c.export == "ALL" else "slurm-none") for c in in_jobs]
            of_slurmd = log_part(time.monotonic() - began)
            answers = _ask_again(nodes_to_ask(found), of_slurmd, ("node",), [found.get("ssh", NO_FLEET)], plan, asker)
            logs = {node: line for node, facts in answers.told.items() if (line := facts.get("slurmd_log.error"))}
        seen = {fact for fleet in found.values() for group in fleet.groups for fact in group.facts}
        return Evidence(
            site=asker.site,
            plan=plan,
            nodes=self.nodes,
            published=published,
            ways=found,
            asked=tuple(asked) if into_shells else (),
            look=look,
            here=told.among(hosts),
            sender=self.hosts.name,
            as_users=as_users,
            in_job=in_job,
            controller=controller,
            login=self.hosts.login,
            alone=plan.alone and "current" not in seen,
            logs=logs,
        )

    def _loads_here(self, plan: AuditPlan) -> Mapping[str, str]:
        """Return the effects of loading the sampled entries on this host."""
        if self.lmod is None or plan.number is None:
            return {}
        folder, command = Prefix(plan.site.prefix).generation(plan.number), self.lmod.commands / "lmod"
        modules, lmodrc = folder / "modules", folder / "lmodrc.lua"
        return expected_effects(command, modules, lmodrc, plan.samples, self.asker.runner, self.asker.left)


def _for_jobs(stage: ProbeStage, checks: Mapping[str, Check], plan: AuditPlan) -> list[ProbePart]:
    """Return the parts of jobs for this stage, as what they ask the node."""
    asked = ((check.table.part, check.probe(plan)) for check in checks.values())
    return [ProbePart(part, {"node": texts[stage]}) for part, texts in asked if stage in texts]


def _with_sections(told: Fleet, plan: AuditPlan, asker: Asker) -> Fleet:
    """Return the answers with what few nodes reported whole, of that in which nodes differ by their digests."""
    sections = sections_of(told)
    part = kinds_part(sections, plan)
    answers = _ask_again(nodes_of(sections), part, ("node", "login"), [told], plan, asker)
    found, changed = filled(told, sections, answers)
    if changed:
        asker.reporter.say(f"{fold(changed)} changed while it was asked: what it has now is compared")
    return found


def _look_again(asker: Asker, evidence: Evidence, wanted: Wanted) -> Seen:
    """Look again at nodes that differ, and at hosts that send jobs."""
    here = evidence.here.nodes if {*evidence.ways} - {"ssh"} else ()
    users: Mapping[ShellAccount, str] = {"root": "root", "user": evidence.plan.user}
    part = second_look_part(wanted, users, evidence.plan.generation)
    fleets, nodes = [evidence.ways.get("ssh", NO_FLEET), evidence.here], (*wanted.nodes, *wanted.normal, *here)
    script = join_probes([part], replace(evidence.plan, contexts=()), stages=("prefix",))
    in_jobs = asker.in_jobs(evidence.in_job.sound.among(nodes).nodes, script, evidence.plan)
    return Seen({**in_jobs.told, **_ask_again(nodes, part, ("prefix",), fleets, evidence.plan, asker).told})


def _ask_again(
    nodes: Iterable[str],
    part: ProbePart,
    stages: Sequence[ProbeStage],
    fleets: Iterable[Fleet],
    plan: AuditPlan,
    asker: Asker,
) -> Fleet:
    """Return the answers of some nodes of `fleets`. Nodes with a hanging mount are not asked."""
    sound = {node for of in fleets for node in {*of.nodes} - held_back(of.nodes, of).keys()}
    wanted = [node for node in dict.fromkeys(nodes) if node in sound and asker.left >= GATE_SECONDS]
    script = join_probes([part], replace(plan, contexts=()), stages=stages)
    return asker.ssh(wanted, script, label="looking again at what differs")


def _groups(sets: NodeSets, reporter: Reporter) -> Mapping[str, tuple[str, ...]]:
    """Return the site's groups, or none if they cannot be read: nodes are known already, so that the audit can go on."""
    try:
        return sets.groups()
    except EnvmgrError as error:
        reporter.say(f"warning: nodes are not compared within groups: {error.message}")
        return {}


def _accounts(site: Site) -> tuple[str, tuple[ShellAccount, ...]]:
    """Return the ordinary user, and the accounts to look at: without root on the nodes only the connecting user."""
    login = site.transport.user or own_name()
    if login == "root" or site.transport.become:
        return site.audit.user or site.build_user or "nobody", ("root", "user")
    return login, ("user",)
