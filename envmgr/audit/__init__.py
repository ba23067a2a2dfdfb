"""The audit: one script joined from all checks, run on every node and in every context; equal answers folded; judged.

Order matters where a prefix may hang: first ssh, where what hangs is left behind; then real batch jobs, and only on nodes
whose prefix answered: a job stuck on a mount drains its node.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from envmgr.apart import run_apart
from envmgr.audit.answers import Folding
from envmgr.audit.ask import Asker
from envmgr.audit.checks.generation import attribute_cache
from envmgr.audit.contexts import choose_contexts
from envmgr.audit.effect import expected_effects
from envmgr.audit.expect import choose_samples, look_here, read_published
from envmgr.audit.model import Account, Check, Evidence, Facts, Fleet, Plan, Published, ShellContext, Way
from envmgr.audit.munge import unmunge
from envmgr.audit.shell import GATE_SECONDS, join_probes
from envmgr.errors import EnvmgrError
from envmgr.finding import Finding
from envmgr.lmod import Lmod
from envmgr.nodes import Reply, expand, fold
from envmgr.report import Reporter
from envmgr.run import Runner
from envmgr.site import Site
from envmgr.store import Prefix

Via = Literal["ssh", "slurm", "both"]


@dataclass(frozen=True, slots=True)
class Request:
    """What to audit. Empty `contexts` are all of `via`; empty `modules` are a sample; times are wall-clock seconds."""

    nodes: tuple[str, ...]
    via: Via
    contexts: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    deadline: float = 600


def gather(
    request: Request, checks: Mapping[str, Check], site: Site, lmod: Lmod | None, runner: Runner, reporter: Reporter
) -> Evidence:
    """Ask the nodes. Ends within `request.deadline` and a few seconds, whatever hangs where.

    Raises:
        InputError: unknown contexts or entries. EnvmgrError: the published generation is damaged.
    """
    ways: tuple[Way, ...] = ("ssh", "slurm") if request.via == "both" else (request.via,)
    user, accounts = _accounts(site)
    init = str(lmod.package / "init") if lmod else ""
    plan = Plan(site, user, None, (), {}, init, contexts=choose_contexts(request.contexts, ways), accounts=accounts)
    asker = Asker(site, runner, reporter, list(checks.values()), time.monotonic() + request.deadline)
    controller = look_here(plan, runner)
    published = read_published(Prefix(site.prefix), runner) if controller["gate"] == "ok" else None
    evidence = _gather(request, ways, plan, published, controller, lmod, asker)
    if published is not None and _is_newer(evidence.mounts, published):  # our own mount may be the one that is late
        asker.sleep(min(attribute_cache(controller, site.mount.attribute_cache), asker.left / 2))
        again = read_published(Prefix(site.prefix), runner)
        if again is not None and again.record.number != published.record.number:
            evidence = _gather(request, ways, plan, again, controller, lmod, asker)
    return evidence


def _gather(
    request: Request, ways: Sequence[Way], plan: Plan, published: Published | None, controller: Facts, lmod: Lmod | None,
    asker: Asker,
) -> Evidence:  # fmt: skip
    site, runner = asker.site, asker.runner
    if published is not None:
        plan = _with_published(plan, published, request.modules)
    over_ssh = tuple(c for c in plan.contexts if c.way == "ssh")
    in_jobs = tuple(c for c in plan.contexts if c.way == "slurm")
    found: dict[str, Fleet] = {}
    here = look = None
    asked: list[tuple[ShellContext, Account, str]] = [(c, a, "ssh") for c in over_ssh for a in plan.accounts]
    if "ssh" in ways:
        script = join_probes(asker.parts, replace(plan, contexts=over_ssh))
        with ThreadPoolExecutor(3) as pool:  # while nodes answer
            whole = pool.submit(look_here, plan, runner, asker.parts)
            looking = pool.submit(_look_around_here, script, request.nodes, site, runner)
            loading = pool.submit(_loads_here, plan, lmod, runner)
            found["ssh"] = asker.ssh(request.nodes, script, published)
            here = looking.result()
            controller = {**controller, **whole.result()}
            plan = replace(plan, loads=loading.result())
    elif site.transport.via != "slurm":  # ssh is there: look, before a job is stuck on a mount and drains its node
        script = join_probes(asker.parts, replace(plan, contexts=()), stages=("node",))
        look = asker.ssh(request.nodes, script, None, label="looking first, over ssh")
    if "ssh" not in ways:
        controller = {**controller, **look_here(plan, runner, asker.parts)}
        plan = replace(plan, loads=_loads_here(plan, lmod, runner))
    if "slurm" in ways:
        found |= asker.slurm(request.nodes, found.get("ssh", look), plan, in_jobs, whole="ssh" not in ways)
        asked += [(c, "user", "slurm" if c.export == "ALL" else "slurm-none") for c in in_jobs]
    states, broken = _slurm_states(asker, asked="slurm" in ways)
    return Evidence(
        site=site,
        plan=plan,
        nodes=request.nodes,
        published=published,
        ways=found,
        asked=tuple(asked),
        look=look,
        here=here,
        controller=controller,
        slurm=states,
        slurm_broken=broken,
        writable=_writable(site, runner),
        addresses=_addresses,
        unmunge=lambda credential: unmunge(credential, runner),
        groups=_groups(site, runner, asker.reporter),
    )


def _is_newer(fleet: Fleet, published: Published) -> bool:
    """Whether a node names a generation after the one that we know."""
    names = fleet.sound.by_value("current")
    numbers = [int(match[1]) for name in names if (match := re.fullmatch(r"generations/([0-9]+)", name))]
    return max(numbers, default=0) > published.record.number


def judge(evidence: Evidence, checks: Mapping[str, Check]) -> tuple[Finding, ...]:
    """All findings: errors first, then by check, place and nodes."""
    order = {"error": 0, "warning": 1, "note": 2}
    findings = [finding for check in checks.values() for finding in check.judge(evidence)]
    findings += _not_here(evidence)
    nodes: dict[Finding, list[str]] = {}
    for finding in findings:  # one, for nodes whose answers differ in something else
        nodes.setdefault(replace(finding, nodes=""), []).extend(expand(finding.nodes) if finding.nodes else ())
    findings = [replace(finding, nodes=fold(of)) for finding, of in nodes.items()]
    return tuple(sorted(findings, key=lambda f: (order[f.severity], f.check, f.where, f.nodes, f.found)))


def _not_here(evidence: Evidence) -> Iterable[Finding]:
    if evidence.published is not None:
        return
    prefix, gate = str(evidence.site.prefix), evidence.controller.get("gate", "hung")
    expected = "a published generation to compare with"
    if gate.startswith("no link"):
        found, hint = (
            f"nothing is published there: {gate}",
            "`envmgr build ENTRY` publishes; or is it not mounted here?",
        )
    else:
        found = (
            f"this host cannot read the published generation: {'does not answer' if gate in ('hung', 'ok') else gate}"
        )
        hint = "mount the prefix here, or audit from a host that has it"
    yield Finding("generation", "error", prefix, found, expected, hint)


def _addresses(node: str) -> frozenset[str]:
    try:
        return frozenset(str(info[4][0]) for info in socket.getaddrinfo(node, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return frozenset()


def _accounts(site: Site) -> tuple[str, tuple[Account, ...]]:
    """The ordinary user, and whose shells can be looked at: without root on the nodes only the connecting user's."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    login = site.transport.user or me
    if login == "root" or site.transport.become:
        return site.audit.user or site.build_user or "nobody", ("root", "user")
    return login, ("user",)


def _with_published(plan: Plan, published: Published, modules: Sequence[str]) -> Plan:
    samples = choose_samples(modules, published)
    roots = {name: published.specs[name].root for name in samples}
    return replace(plan, number=published.record.number, samples=samples, roots=roots)


def _loads_here(plan: Plan, lmod: Lmod | None, runner: Runner) -> Mapping[str, str]:
    """What loading the sampled entries gives on this host."""
    if lmod is None or plan.number is None:
        return {}
    folder = Prefix(plan.site.prefix).generation(plan.number)
    command = lmod.commands / "lmod"
    return expected_effects(command, folder / "modules", folder / "lmodrc.lua", plan.samples, runner)


def _look_around_here(script: str, asked: Sequence[str], site: Site, runner: Runner) -> Fleet | None:
    """The shells of this host, where it is a login node that is not asked as a node anyway."""
    from envmgr.nodes import resolve_nodes

    name = socket.gethostname().partition(".")[0]
    if site.login_nodes is None or name in asked or name not in resolve_nodes(site.login_nodes, site, runner):
        return None
    folding = Folding((name,))
    began = time.time()
    limit = site.transport.node_timeout + GATE_SECONDS
    done = run_apart(["/bin/sh", "-s"], stdin=script, seconds=limit, check=runner.raise_if_cancelled)
    if done.returncode is not None:
        folding(Reply(name, "answered", done.output, "", began, time.time()))
    return folding.fleet()


def _slurm_states(asker: Asker, *, asked: bool) -> tuple[Mapping[str, tuple[str, str]], str]:
    """Slurm's view of its nodes, or why it cannot be had; nothing on a host whose Slurm was never configured."""
    from envmgr.nodes import UNCONFIGURED, slurm_here, states_or_reason

    if not asked and not slurm_here():
        return {}, ""
    states, broken = states_or_reason(asker.runner, max(2.0, asker.left))
    return states, "" if broken == UNCONFIGURED and not asked else broken


def _groups(site: Site, runner: Runner, reporter: Reporter) -> Mapping[str, tuple[str, ...]]:
    """Nodes were named or found already: groups that cannot be read are a smaller loss than the audit."""
    from envmgr.nodes import node_groups

    try:
        return node_groups(site, runner)
    except EnvmgrError as error:
        reporter.say(f"warning: nodes are not compared within groups: {error.message}")
        return {}


def _writable(site: Site, runner: Runner) -> frozenset[str] | None:
    from envmgr.nodes import resolve_nodes

    return None if site.mount.writable is None else frozenset(resolve_nodes(site.mount.writable, site, runner))
