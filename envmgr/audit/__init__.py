"""The audit: one script joined from all checks, run on every node and in every context; equal answers folded; judged.

Order matters where a prefix may hang: first ssh, where what hangs is left behind; then real batch jobs, and only on nodes
whose prefix answered: a job stuck on a mount drains its node.
"""

from __future__ import annotations

import os
import pwd
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from envmgr.apart import run_apart
from envmgr.audit.contexts import choose_contexts
from envmgr.audit.expect import choose_samples, look_here, read_published
from envmgr.audit.model import Account, Check, Evidence, Facts, Fleet, Group, Plan, Published, ShellContext
from envmgr.audit.munge import unmunge
from envmgr.audit.shell import GATE_SECONDS, join_probes, read_answer
from envmgr.errors import EnvmgrError
from envmgr.finding import Finding
from envmgr.lmod import Lmod
from envmgr.nodes import Reply
from envmgr.report import Reporter
from envmgr.run import Runner
from envmgr.site import Site
from envmgr.store import Prefix

Via = Literal["ssh", "slurm", "both"]

_LIMIT = 4 << 20  # bytes of one node's answer


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
    end = time.monotonic() + request.deadline
    ways = ("ssh", "slurm") if request.via == "both" else (request.via,)
    contexts = choose_contexts(request.contexts, ways)
    user, accounts = _accounts(site)
    plan = Plan(site, user, None, (), {}, str(lmod.package / "init") if lmod else "")
    parts = list(checks.values())
    controller = look_here(parts, plan, runner)
    published = read_published(Prefix(site.prefix)) if controller["gate"] == "ok" else None
    if published is not None:
        plan = _with_published(plan, published, request.modules, lmod, runner)
    asker = _Asker(site, runner, reporter, end)
    found: dict[str, Fleet] = {}
    here: Fleet | None = None
    look: Fleet | None = None
    over_ssh = tuple(c for c in contexts if c.way == "ssh")
    if "ssh" in ways:
        script = join_probes(parts, replace(plan, contexts=over_ssh, accounts=accounts))
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(_look_around_here, script, request.nodes, site, runner)
            found["ssh"] = asker.ssh(request.nodes, script, published)
            here = looking.result()
        clean = found["ssh"]
    elif site.transport.via != "slurm":  # ssh is there: look, before a job is stuck on a mount and drains its node
        script = join_probes(parts, plan, stages=("node",))
        clean = look = asker.ssh(request.nodes, script, None, label="looking first, over ssh")
    else:
        clean = None
    asked: list[tuple[ShellContext, Account, str]] = [(c, a, "ssh") for c in over_ssh for a in accounts]
    if "slurm" in ways:
        in_jobs = tuple(c for c in contexts if c.way == "slurm")
        found |= asker.slurm(request.nodes, clean, parts, plan, in_jobs, whole="ssh" not in ways)
        asked += [(c, "user", "slurm" if c.export == "ALL" else "slurm-none") for c in in_jobs]
    return Evidence(
        site=site,
        plan=replace(plan, contexts=contexts, accounts=accounts),
        nodes=request.nodes,
        published=published,
        ways=found,
        asked=tuple(asked),
        look=look,
        here=here,
        controller=controller,
        slurm=_slurm_states(runner, reporter, end, asked="slurm" in ways),
        writable=_writable(site, runner),
        unmunge=lambda credential: unmunge(credential, runner),
        groups=_groups(site, runner, reporter),
    )


def judge(evidence: Evidence, checks: Mapping[str, Check]) -> tuple[Finding, ...]:
    """All findings: errors first, then by check, place and nodes."""
    order = {"error": 0, "warning": 1, "note": 2}
    findings = [finding for check in checks.values() for finding in check.judge(evidence)]
    findings += _not_here(evidence)
    return tuple(sorted(findings, key=lambda f: (order[f.severity], f.check, f.where, f.nodes, f.found)))


def _not_here(evidence: Evidence) -> Iterable[Finding]:
    if evidence.published is None:
        gate = evidence.controller.get("gate", "hung")
        found = "does not answer" if gate == "hung" else gate
        yield Finding(
            "generation", "error", str(evidence.site.prefix), f"this host cannot read the published generation: {found}",
            "a published generation to compare with", "mount the prefix here, or audit from a host that has it",
        )  # fmt: skip


def _accounts(site: Site) -> tuple[str, tuple[Account, ...]]:
    """The ordinary user, and whose shells can be looked at: without root on the nodes only the connecting user's."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    login = site.transport.user or me
    if login == "root" or site.transport.become:
        return site.audit.user or site.build_user or "nobody", ("root", "user")
    return login, ("user",)


def _with_published(
    plan: Plan, published: Published, modules: Sequence[str], lmod: Lmod | None, runner: Runner
) -> Plan:
    from envmgr.audit.effect import expected_effects

    samples = choose_samples(modules, published)
    folder = Prefix(plan.site.prefix).generation(published.record.number)
    loads: Mapping[str, str] = {}
    if lmod is not None:
        command = lmod.commands / "lmod"
        loads = expected_effects(command, folder / "modules", folder / "lmodrc.lua", samples, runner, timeout=60)
    roots = {name: published.specs[name].root for name in samples}
    return replace(plan, number=published.record.number, samples=samples, loads=loads, roots=roots)


@dataclass(frozen=True, slots=True)
class _Asker:
    """Asks and folds. `end` is when everything must be over, by time.monotonic()."""

    site: Site
    runner: Runner
    reporter: Reporter
    end: float

    def ssh(self, nodes: Sequence[str], script: str, published: Published | None, *, label: str = "ssh") -> Fleet:
        """Every node's answer; those that see an older generation are asked again once their mount must show the new one."""
        folding = _Folding(nodes)
        self._ask(nodes, script, folding, label)
        if published is not None:
            while stale := self._stale(folding.fleet(), published):
                wait, again = stale
                if time.monotonic() + wait > self.end:
                    break
                with self.reporter.stage(f"attribute cache of {len(again)} nodes"):
                    self._sleep(wait)
                folding.forget(again)
                self._ask(again, script, folding, f"{label}, again")
        return folding.fleet()

    def _stale(self, fleet: Fleet, published: Published) -> tuple[float, tuple[str, ...]] | None:
        """Seconds to wait, and for which nodes: only those that had not yet to see the publish when they were asked."""
        from envmgr.audit.checks.generation import attribute_cache, is_stale

        waits, nodes = [0.0], []
        for group in fleet.groups:
            if not is_stale(group.facts, published.record.number):
                continue
            visible = published.since + attribute_cache(group.facts, self.site.mount.attribute_cache) + 0.5
            early = [n for n in group.nodes if fleet.replies[n].began < visible]
            if early:
                nodes += early
                waits.append(visible - time.time())
        return (max(waits), tuple(nodes)) if nodes else None

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.runner.raise_if_cancelled()
            time.sleep(min(0.1, left))

    def _ask(self, nodes: Sequence[str], script: str, folding: _Folding, label: str) -> None:
        from envmgr.nodes import ask_nodes

        with self.reporter.stage(label, total=len(nodes), unit="nodes") as stage:
            ask_nodes(
                nodes, script, site=self.site, via="ssh", runner=self.runner, on_reply=folding.counting(stage.update),
                deadline=max(1.0, self.end - time.monotonic()), limit=_LIMIT, fresh=True,
            )  # fmt: skip

    def slurm(
        self, nodes: Sequence[str], clean: Fleet | None, parts: Sequence[Check], plan: Plan,
        contexts: Sequence[ShellContext], *, whole: bool,
    ) -> dict[str, Fleet]:  # fmt: skip
        """Real jobs, one a node and kind of export, side by side. With `whole`, the first kind carries every check."""
        fit = set(clean.sound.nodes) if clean is not None else set(nodes)
        kinds: list[tuple[str, Literal["ALL", "NONE"]]] = [("slurm", "ALL"), ("slurm-none", "NONE")]
        chosen = [(w, e) for w, e in kinds if any(c.export == e for c in contexts) or (whole and e == "ALL")]
        now = time.time()
        foldings = {}
        for way, _ in chosen:
            foldings[way] = _Folding(nodes)
            for node in nodes:
                if node not in fit:
                    reason = _why_not(node, clean)
                    foldings[way](Reply(node, "unreachable", "", reason, now, now))
        with self.reporter.stage("jobs", total=len(fit) * len(chosen), unit="nodes"), ThreadPoolExecutor(2) as pool:
            waiting = [
                pool.submit(
                    self._batch,
                    sorted(fit, key=list(nodes).index),
                    parts,
                    plan,
                    contexts,
                    export,
                    foldings[way],
                    whole=whole,
                )
                for way, export in chosen
            ]
            for future in waiting:
                future.result()
        return {way: folding.fleet() for way, folding in foldings.items()}

    def _batch(
        self, nodes: Sequence[str], parts: Sequence[Check], plan: Plan, contexts: Sequence[ShellContext],
        export: Literal["ALL", "NONE"], folding: _Folding, *, whole: bool,
    ) -> None:  # fmt: skip
        from envmgr.nodes import batch_on_nodes

        if not nodes:
            return
        mine = replace(plan, contexts=tuple(c for c in contexts if c.export == export), accounts=("user",))
        full = whole and export == "ALL"
        script = join_probes(parts, mine) if full else join_probes(parts, mine, stages=("context",))
        batch_on_nodes(
            nodes, script, site=self.site, runner=self.runner, on_reply=folding, export=export,
            user=plan.user if os.geteuid() == 0 else None, timeout=self.site.transport.node_timeout,
            deadline=max(1.0, self.end - time.monotonic()), limit=_LIMIT,
        )  # fmt: skip


def _why_not(node: str, clean: Fleet | None) -> str:
    missing = {r.node: r for r in clean.missing} if clean is not None else {}
    if node in missing:
        return f"no job was sent: it did not answer over ssh first ({missing[node].reason})"
    return "no job was sent: its prefix does not answer, and a job stuck on it would drain the node"


class _Folding:
    """Takes replies as they come and keeps one copy of what several nodes said: memory follows diversity."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._order = {node: number for number, node in enumerate(nodes)}
        self._facts: dict[str, Facts] = {}
        self._nodes: dict[str, list[str]] = {}
        self._own: dict[str, Facts] = {}
        self._replies: dict[str, Reply] = {}

    def __call__(self, reply: Reply) -> None:
        self._replies[reply.node] = replace(reply, text="")
        if reply.status != "answered":
            return
        facts, own, text = read_answer(reply.text)
        self._own[reply.node] = own
        if text not in self._nodes:
            self._facts[text] = facts
            self._nodes[text] = []
        self._nodes[text].append(reply.node)

    def counting(self, update: Callable[[int], None]) -> Callable[[Reply], None]:
        def take(reply: Reply) -> None:
            self(reply)
            update(len(self._replies))

        return take

    def forget(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._replies.pop(node, None)
            for of_text in self._nodes.values():
                if node in of_text:
                    of_text.remove(node)

    def fleet(self) -> Fleet:
        groups = [
            Group(self._facts[text], tuple(sorted(nodes, key=self._order.__getitem__)))
            for text, nodes in self._nodes.items() if nodes
        ]  # fmt: skip
        groups.sort(key=lambda group: self._order[group.nodes[0]])
        missing = [r for r in self._replies.values() if r.status != "answered"]
        missing.sort(key=lambda r: self._order[r.node])
        return Fleet(tuple(groups), self._own, self._replies, tuple(missing))


def _look_around_here(script: str, asked: Sequence[str], site: Site, runner: Runner) -> Fleet | None:
    """The shells of this host, where it is a login node that is not asked as a node anyway."""
    from envmgr.nodes import resolve_nodes

    name = socket.gethostname().partition(".")[0]
    if site.login_nodes is None or name in asked or name not in resolve_nodes(site.login_nodes, site, runner):
        return None
    folding = _Folding((name,))
    began = time.time()
    limit = site.transport.node_timeout + GATE_SECONDS
    done = run_apart(["/bin/sh", "-s"], stdin=script, seconds=limit, check=runner.raise_if_cancelled)
    if done.returncode is not None:
        folding(Reply(name, "answered", done.output, "", began, time.time()))
    return folding.fleet()


def _slurm_states(runner: Runner, reporter: Reporter, end: float, *, asked: bool) -> Mapping[str, tuple[str, str]]:
    """Slurm's view of its nodes, where there is Slurm; one that is down is told by the jobs that could not be sent."""
    from envmgr.nodes import node_states, slurm_here

    if not asked and not slurm_here():
        return {}
    try:
        return node_states(runner, timeout=max(2.0, min(20.0, end - time.monotonic())))
    except EnvmgrError as error:
        reporter.say(f"warning: Slurm's view of the nodes is missing: {error.message}")
        return {}


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
