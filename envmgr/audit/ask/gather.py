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

from envmgr.audit.ask.as_users import ask_as_users
from envmgr.audit.ask.ask_nodes import Asker, log_part, nodes_to_ask, read_logs, where_nothing_hangs
from envmgr.audit.ask.expected_generation import read_published, with_published
from envmgr.audit.ask.gpu_jobs import ask_gpu_jobs
from envmgr.audit.ask.submit_hosts import NOBODY, SubmitHosts, both, submit_hosts, this_host
from envmgr.audit.baseline import Baseline
from envmgr.audit.controller import Controller
from envmgr.audit.fit.matrix import groups_by_kind
from envmgr.audit.inventory.sections import filled, nodes_of, sections_of
from envmgr.audit.inventory.texts import kinds_part
from envmgr.audit.model import Check, Evidence, Want, audit_parts, standing_alone
from envmgr.audit.plan import AuditPlan, AuditRequest, PublishedGeneration
from envmgr.audit.second_look import LookAgain, Seen, Wanted, read_second_look, second_look_part
from envmgr.audit.shell.shared_shell import expected_effects
from envmgr.audit.table import UndeclaredFactError
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.lmod import Lmod
from envmgr.nodes.sets import NodeSets, fold
from envmgr.nodes.slurm import slurm_here, submitting_nodes, users_with_jobs
from envmgr.probe.model import Facts, Fleet, ProbePart, ProbeStage, ShellAccount, ShellContext, Way, choose_contexts
from envmgr.probe.prefix import attribute_cache, look_here, newer_generations
from envmgr.probe.shell import GATE_SECONDS, join_probes, part_seconds
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner
from envmgr.system.usernames import own_name

_MANY = 64  # nodes that tell what they have by digests: fewer tell it whole


@dataclass(frozen=True, slots=True)
class Gathered:
    """The evidence, and a function that looks again at nodes that differ."""

    evidence: Evidence
    look_again: LookAgain


def gather(
    request: AuditRequest,
    checks: Mapping[str, Check],
    site: Site,
    lmod: Lmod | None,
    runner: Runner,
    reporter: Reporter,
    baseline: Baseline | None = None,
) -> Gathered:
    """Ask the nodes. `baseline` is that of the request.

    The call ends within the site's deadline and a few seconds, even if something hangs.

    Raises:
        InputError: unknown nodes, contexts or entries; `unknown-node` for the reference.
        EnvmgrError: the published generation is damaged, groups cannot be read.
    """
    via = request.via or site.transport.via
    ways: tuple[Way, ...] = ("ssh", "slurm") if via == "both" else (via,)
    user, accounts = (own_name(), ("user",)) if request.here else _accounts(site)
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
        day=int(time.time() // 86400) if request.drawn and not (request.baseline or request.save_baseline) else 0,
        salt=secrets.token_hex(8),
    )
    asker = Asker(site, runner, reporter, time.monotonic() + site.transport.deadline, here=request.here)
    sets = NodeSets(site, runner, site.transport.deadline)
    nodes = (this_host(),) if request.here else sets.resolve(request.nodes)
    whole = len(nodes) < _MANY or request.baseline or request.save_baseline
    plan = replace(plan, by_digest="ssh" in ways and not whole)
    if request.reference and request.reference not in nodes:
        raise InputError(
            "unknown-node",
            f"{request.reference} is not among the nodes of this audit",
            context=fold(nodes),
            hint="name one of them with `--reference`, or add it to `--nodes`",
        )
    login: tuple[str, ...] = ()
    if not request.here:
        named = site.login_nodes
        login = sets.resolve(named) if named is not None else submitting_nodes(runner) if "slurm" in ways else ()
    hosts = submit_hosts(nodes, login, all_of_them=request.nodes is None, sends_jobs="slurm" in ways)
    gathering = _Gathering(asker, checks, sets, nodes, hosts, ways, lmod, baseline)
    controller = look_here(plan, runner, asker.left)
    prefix = Prefix(site.prefix)
    published = read_published(prefix, runner, asker.left, request.generation) if controller["gate"] == "ok" else None
    of_published = any("published" in checks[name.replace("_", "-")].wants for name in request.checks)
    if _stands_alone(controller, site) and not of_published:
        plan = replace(plan, alone=True)
        gathering = replace(gathering, checks=standing_alone(checks))
        controller = look_here(plan, runner, asker.left)
    evidence = gathering.evidence(plan, published, controller)
    if published is not None and newer_generations(evidence.mounts, published.record.number):
        # this host's own mount may be late
        asker.sleep(min(attribute_cache(controller, site.mount.attribute_cache), asker.left / 2))
        again = read_published(prefix, runner, asker.left, request.generation)
        if again is not None and again.record.number != published.record.number:
            evidence = gathering.evidence(plan, again, controller)
    evidence = gathering.shown(evidence)
    return Gathered(evidence, partial(gathering.look_again, evidence))


def _stands_alone(controller: Facts, site: Site) -> bool:
    """Return whether this host shows that nothing was ever published.

    It does not show that if the mount that the site names is missing here.
    """
    right = site.mount.source
    return controller.get("never") == "yes" and (right is None or controller.get("mount.source") == right)


@dataclass(frozen=True, slots=True)
class _Gathering:
    """Asks the nodes `ways`, and `hosts` that send jobs; may be done again for another published generation."""

    asker: Asker
    checks: Mapping[str, Check]
    sets: NodeSets
    nodes: tuple[str, ...]
    hosts: SubmitHosts
    ways: Sequence[Way]
    lmod: Lmod | None
    baseline: Baseline | None

    def evidence(self, plan: AuditPlan, published: PublishedGeneration | None, controller: Facts) -> Evidence:
        asker, site, runner = self.asker, self.asker.site, self.asker.runner
        if published is not None:
            plan = with_published(plan, published, runner, asker.left)
        parts = audit_parts(self.checks.values(), plan)
        over_ssh = tuple(c for c in plan.contexts if c.way == "ssh")
        in_jobs = tuple(c for c in plan.contexts if c.way == "slurm")
        found: dict[str, Fleet] = {}
        here = look = canary = None
        asked: list[tuple[ShellContext, ShellAccount, str]] = [
            (c, a, "ssh") for c in over_ssh for a in plan.accounts if a in c.accounts
        ]
        into_shells = any("context" in part.texts for part in parts)
        if into_shells and any(context.shell == "zsh" for context in over_ssh):
            plan = replace(plan, shells=(*plan.shells, *shells_of_jobs(runner, asker.left)))
        script = join_probes(parts, replace(plan, contexts=over_ssh))
        with ThreadPoolExecutor(2) as pool:  # while nodes answer
            looking = pool.submit(self._hosts, script, plan, parts)
            loading = pool.submit(self._loads_here, plan)
            if "ssh" in self.ways:
                found["ssh"] = asker.ssh(self.nodes, script, published)
            elif site.transport.via != "slurm":
                # look over ssh first: a job stuck on a mount would drain its node
                script = join_probes(parts, replace(plan, contexts=()), stages=("node",))
                look = asker.ssh(self.nodes, script, None, label="looking first, over ssh")
            here, whole = looking.result()
            plan = replace(plan, loads=loading.result())
        if plan.by_digest and "ssh" in found:
            found["ssh"], here = self._with_sections(found["ssh"], here, plan)
        controller = {**controller, **whole}
        logs: Mapping[str, str] = {}
        if "slurm" in self.ways:
            began, clean = time.monotonic(), found.get("ssh", look)
            with ThreadPoolExecutor(1) as pool:
                as_users = pool.submit(self._as_users, clean, plan)
                found |= asker.slurm(self.nodes, clean, plan, parts, in_jobs, whole="ssh" not in self.ways)
                canary = as_users.result()
            asked += [(c, "user", "slurm" if c.export == "ALL" else "slurm-none") for c in in_jobs]
            logs = self._logs(found, plan, time.monotonic() - began)
        evidence = Evidence(
            site=site,
            plan=plan,
            nodes=self.nodes,
            published=published,
            ways=found,
            asked=tuple(asked) if into_shells else (),
            look=look,
            here=here,
            sender=self.hosts.name,
            as_users=canary,
            controller=controller,
            groups=self._groups(),
            login=self.hosts.login,
            alone=plan.alone
            and not any("current" in group.facts for fleet in found.values() for group in fleet.groups),
            baseline=self.baseline,
            logs=logs,
        )
        kinds = {} if evidence.groups else groups_by_kind(evidence)
        return self._with_answers(replace(evidence, kinds=kinds))

    def _hosts(self, script: str, plan: AuditPlan, parts: Sequence[ProbePart]) -> tuple[Fleet | None, Facts]:
        """Return the answers of hosts that send jobs, and what this host has, by its answer or by a look of its own."""
        look = partial(look_here, plan, self.asker.runner, self.asker.left, parts)
        if not self.hosts.here:  # nothing here answers: look while others do
            with ThreadPoolExecutor(1) as pool:
                own = pool.submit(look)
                return self.hosts.ask(script, self.asker), own.result()
        answers = self.hosts.ask(script, self.asker)
        for group in answers.groups if answers else ():
            if self.hosts.here in group.nodes:
                return answers, group.facts
        return answers, look()

    def _as_users(self, clean: Fleet | None, plan: AuditPlan) -> Fleet | None:
        parts = [ProbePart(c.part, c.submit_probe(plan)) for c in self.checks.values() if c.submit_probe is not None]
        return ask_as_users(self.nodes, clean, plan, parts, self.asker) if parts else None

    def _want(self, what: Want) -> bool:
        return any(what in check.wants for check in self.checks.values())

    def _logs(self, ways: Mapping[str, Fleet], plan: AuditPlan, seconds: float) -> Mapping[str, str]:
        nodes = nodes_to_ask(ways)
        if not nodes or self.asker.left < GATE_SECONDS:
            return {}
        script = join_probes([log_part(seconds)], replace(plan, contexts=()), stages=("node",))
        return read_logs(self.asker.ssh(nodes, script, None, label="slurmd's log"))

    def shown(self, evidence: Evidence) -> Evidence:
        """Return the evidence with the answers of jobs that ask for a GPU, on nodes that hide theirs.

        No node is asked if none hides its GPUs.
        """
        telling = [
            ProbePart(check.part, check.gpu_probe(evidence.plan))
            for check in self.checks.values()
            if check.gpu_probe is not None
        ]
        return replace(evidence, gpu_jobs=ask_gpu_jobs(evidence, telling, self.asker)) if telling else evidence

    def _with_sections(self, fleet: Fleet, here: Fleet | None, plan: AuditPlan) -> tuple[Fleet, Fleet | None]:
        """Return the answers with what few nodes reported whole, of that in which nodes differ by their digests."""
        sections = sections_of(both(fleet, here or NOBODY))
        part = kinds_part(sections, plan)
        answers = (
            self._ask_again(nodes_of(sections), part, ("node", "login"), fleet, here, plan) if sections else NOBODY
        )
        found, changed = filled(fleet, sections, answers)
        if changed:
            self.asker.reporter.say(f"{fold(changed)} changed while it was asked: what it has now is compared")
        return found, here and filled(here, sections, answers)[0]

    def look_again(self, evidence: Evidence, wanted: Wanted) -> Seen:
        """Look again at nodes that differ."""
        here = evidence.here.sound.nodes if evidence.here and "slurm" in self.ways else ()
        users: Mapping[ShellAccount, str] = {"root": "root", "user": evidence.plan.user}
        part = second_look_part(wanted, users, evidence.plan.generation)
        nodes = (*wanted.nodes, *wanted.normal, *here)
        return read_second_look(self._ask_again(nodes, part, ("prefix",), evidence.fleet, evidence.here, evidence.plan))

    def _ask_again(
        self,
        nodes: Iterable[str],
        part: ProbePart,
        stages: Sequence[ProbeStage],
        fleet: Fleet,
        here: Fleet | None,
        plan: AuditPlan,
    ) -> Fleet:
        """Return the answers of some nodes and hosts that send jobs. Nodes with a hanging mount are not asked."""
        if self.asker.left < GATE_SECONDS:
            return NOBODY
        script = join_probes([part], replace(plan, contexts=()), stages=stages)
        hosts = here.sound.nodes if here else ()
        sound = where_nothing_hangs(self.nodes, fleet) if "ssh" in self.ways else frozenset[str]()
        wanted = dict.fromkeys(nodes)
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(self.hosts.ask, script, self.asker, [node for node in wanted if node in hosts])
            far = [node for node in wanted if node in sound and node not in hosts]
            found = self.asker.ssh(far, script, None, label="looking again at what differs") if far else NOBODY
            return both(found, beside.result() or NOBODY)

    def _with_answers(self, evidence: Evidence) -> Evidence:
        """Ask this host the questions of the checks."""
        asker = self.asker
        controller = Controller(asker.runner, self.sets, jobs="slurm" in self.ways, end=asker.end)
        if self._want("slurm"):
            evidence = replace(evidence, slurm=controller.slurm())
        answers = {name: answer_here(check, controller, evidence) for name, check in self.checks.items()}
        return replace(evidence, answers=answers)

    def _loads_here(self, plan: AuditPlan) -> Mapping[str, str]:
        """Return the effects of loading the sampled entries on this host."""
        if self.lmod is None or plan.number is None:
            return {}
        folder, command = Prefix(plan.site.prefix).generation(plan.number), self.lmod.commands / "lmod"
        modules, lmodrc = folder / "modules", folder / "lmodrc.lua"
        return expected_effects(command, modules, lmodrc, plan.samples, self.asker.runner, self.asker.left)

    def _groups(self) -> Mapping[str, tuple[str, ...]]:
        """Return the site's groups, or none if they cannot be read: nodes are known already, so that the audit can go
        on.
        """
        try:
            return self.sets.groups()
        except EnvmgrError as error:
            self.asker.reporter.say(f"warning: nodes are not compared within groups: {error.message}")
            return {}


def answer_here(check: Check, controller: Controller, evidence: Evidence) -> object:
    """Return this host's answer to the check's question, None for a check without one, or the check's mistake."""
    if check.ask_controller is None:
        return None
    try:
        return check.ask_controller(controller, evidence.of_check(check.table))
    except UndeclaredFactError as error:
        return error  # a mistake in one check takes nothing from the others


def _accounts(site: Site) -> tuple[str, tuple[ShellAccount, ...]]:
    """Return the ordinary user, and the accounts to look at: without root on the nodes only the connecting user."""
    me = own_name()
    login = site.transport.user or me
    if login == "root" or site.transport.become:
        return site.audit.user or site.build_user or "nobody", ("root", "user")
    return login, ("user",)


_SECONDS = 2.0  # this is asked before the nodes
_MOST = 200  # users; one command line holds their names


def shells_of_jobs(runner: Runner, seconds: float) -> tuple[str, ...]:
    """Return the shells of users with jobs (`bash`, `zsh`, …), looked up on this host.

    Empty if there is no Slurm here, or no answer in time.
    """
    limit = min(seconds, _SECONDS)
    if not slurm_here():
        return ()
    try:
        users = users_with_jobs(runner, timeout=limit)[:_MOST]
        # status 2: some users are unknown
        said = runner.run(["getent", "passwd", *users], timeout=limit, check=False).stdout if users else ""
    except EnvmgrError:
        return ()
    fields = (line.split(":") for line in said.splitlines())
    return tuple(sorted({of[6].rpartition("/")[2] for of in fields if len(of) == 7 and of[6]}))
