"""Questions to nodes: over ssh, again if a mount may not yet have shown the last publish, and by real batch jobs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from envmgr.audit.plan import PublishedGeneration
from envmgr.catalog.site import Site
from envmgr.nodes.envelope import Reply
from envmgr.nodes.slurm import slurm_names, states_or_reason
from envmgr.probe.model import NO_FLEET, Fleet, ProbePart, ProbePlan, ShellContext
from envmgr.probe.prefix import attribute_cache, is_stale
from envmgr.probe.shell import GATE_SECONDS, STAGES, Folding, join_probes
from envmgr.report import Reporter
from envmgr.system.run import Runner, run_detached
from envmgr.system.shelltext import assign, script_text

Export = Literal["ALL", "NONE"]


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks nodes and folds their answers. `end` is the time at which everything must be over, by time.monotonic().

    This host is asked without ssh where its name is `here`.
    """

    site: Site
    runner: Runner
    reporter: Reporter
    end: float
    here: str = ""

    @property
    def left(self) -> float:
        """Return the seconds until the deadline."""
        return self.end - time.monotonic()

    def ssh(
        self, nodes: Sequence[str], script: str, published: PublishedGeneration | None = None, *, label: str = "ssh"
    ) -> Fleet:
        """Return every node's answer.

        Nodes that see an older generation are asked again once their mount must show the new one.
        """
        folding = Folding(nodes)
        self._ask(nodes, script, folding, label)
        wait, again = self._stale(folding.fleet(), published) if published is not None else (0.0, [])
        if again and wait <= self.left:
            with self.reporter.stage(f"attribute cache of {len(again)} nodes"):
                self.sleep(wait)
            self._ask(again, script, folding, f"{label}, again")
        return folding.fleet()

    def sleep(self, seconds: float) -> None:
        self.runner.cancel.wait(seconds)
        self.runner.raise_if_cancelled()

    def _stale(self, fleet: Fleet, published: PublishedGeneration) -> tuple[float, list[str]]:
        """Return the seconds to wait, and the nodes: those that did not have to see the publish yet when they were asked."""
        wait, nodes = 0.0, list[str]()
        for group in fleet.groups:
            visible = published.since + attribute_cache(group.facts, self.site.mount.attribute_cache) + 0.5
            early = [node for node in group.nodes if fleet.replies[node].began < visible]  # a later one is a finding
            if early and is_stale(group.facts, published.record.number):
                wait = max(wait, visible - time.time())
                nodes += early
        return wait, nodes

    def _ask(self, nodes: Sequence[str], script: str, folding: Folding, label: str) -> None:
        from envmgr.nodes.fanout import ask_nodes

        far = [node for node in nodes if node != self.here]
        if not far:
            for _ in nodes:
                folding(self._ask_here(script))
            return
        with self.reporter.stage(label, total=len(nodes), unit="nodes") as stage, ThreadPoolExecutor(1) as pool:
            take = folding.counting(stage)
            local = [pool.submit(self._ask_here, script) for _ in range(len(nodes) - len(far))]
            left, site, runner = max(1.0, self.left), self.site, self.runner
            ask_nodes(far, script, site=site, via="ssh", runner=runner, on_reply=take, deadline=left, fresh=True)
            for answer in local:
                take(answer.result())

    def _ask_here(self, script: str) -> Reply:
        """Return the answer of this host. What hangs in it is left behind."""
        began = time.time()
        limit = min(self.site.transport.node_timeout + GATE_SECONDS, self.left)
        done = run_detached(["/bin/sh", "-s"], stdin=script, seconds=limit, check=self.runner.raise_if_cancelled)
        # A script that was left behind has only a part of the answers.
        late = f"no answer in {limit:.3g} s" if done.returncode is None else ""
        return Reply(self.here, "silent" if late else "answered", "" if late else done.output, late, began, time.time())

    def slurm(
        self,
        nodes: Sequence[str],
        clean: Fleet | None,
        plan: ProbePlan,
        parts: Sequence[ProbePart],
        contexts: Sequence[ShellContext],
        *,
        whole: bool,
    ) -> dict[str, Fleet]:
        """Run real jobs, one for each node and kind of export, in parallel. With `whole`, the first kind carries all
        `parts`.
        """
        unfit = held_back(nodes, clean)
        asked = [node for node in nodes if node not in unfit]
        foldings: dict[str, Folding] = {}
        sending, now = [], time.time()
        kinds: tuple[tuple[str, Export], ...] = (("slurm", "ALL"), ("slurm-none", "NONE"))
        for way, export in kinds:
            mine, full = tuple(c for c in contexts if c.export == export), whole and export == "ALL"
            if not mine and not full:
                continue
            folding = foldings[way] = Folding(nodes)
            for node, why in unfit.items():
                folding(Reply(node, "unreachable", "", NOT_SENT + why, now, now))
            if asked:  # a job belongs to the user, so it has no shells of root
                of_job = replace(plan, contexts=mine, accounts=("user",))
                script = join_probes(parts, of_job, stages=STAGES if full else ("context",))
                sending.append(partial(self.send, asked, script, plan, folding, export))
        self.send_all("jobs", len(asked) * len(sending), sending)
        return {way: folding.fleet() for way, folding in foldings.items()}

    def in_jobs(self, nodes: Sequence[str], script: str, plan: ProbePlan, prepare: str | None = None) -> Fleet:
        """Return what nodes tell in jobs of this account, or with a `prepare` in jobs that are submitted as users do."""
        folding = Folding(nodes)
        export: Export | None = "NONE" if prepare is None else None
        self.send(nodes, script, plan, folding, export, prepare=prepare or "", user=None if export else "")
        return folding.fleet()

    def as_users(
        self, nodes: Sequence[str], clean: Fleet | None, plan: ProbePlan, parts: Sequence[ProbePart], entry: str
    ) -> Fleet:
        """Return the answer of one node that is fit for jobs, if one is, from a job that is submitted as users do: from a login shell with
        the module `entry` loaded, and without an option for exports.
        """
        unfit = held_back(nodes, clean)
        states, _ = states_or_reason(self.runner, self.left)
        names = slurm_names(states, [node for node in nodes if node not in unfit])
        # The last idle one: jobs of the audit are submitted to the first nodes first.
        last = sorted(names, key=lambda node: states[names[node]][0].startswith("idle"))[-1:] if parts else []
        script = join_probes(parts, replace(plan, contexts=(), accounts=("user",)), stages=("node",))
        prepare = assign(envmgr_entry=entry) + script_text(__file__, "prepare.sh")
        return self.in_jobs(last, script, plan, prepare)

    def send_all(self, label: str, count: int, sending: Sequence[Callable[[], None]]) -> None:
        """Send jobs to `count` nodes, by calls of `send` in parallel."""
        with self.reporter.stage(label, total=count, unit="nodes"), ThreadPoolExecutor(4) as pool:
            for sent in [pool.submit(each) for each in sending]:
                sent.result()

    def send(
        self,
        nodes: Sequence[str],
        script: str,
        plan: ProbePlan,
        folding: Folding,
        export: Export | None,
        *,
        options: Sequence[str] = (),
        prepare: str = "",
        end: float | None = None,
        user: str | None = "",
    ) -> None:
        """Run a job on each node, as users submit theirs where `export` is None; see `batch_on_nodes`. `end` is by
        time.monotonic(), the audit's if None. Only root may submit jobs for another `user` than itself (None).
        """
        from envmgr.nodes.batch import batch_on_nodes

        batch_on_nodes(
            nodes,
            script,
            site=self.site,
            runner=self.runner,
            on_reply=folding,
            export=_with_use(export, plan),
            user=plan.user if user == "" and os.geteuid() == 0 else None,
            deadline=max(1.0, (end or self.end) - time.monotonic()),
            options=options,
            prepare=prepare,
        )


def _with_use(export: Export | None, plan: ProbePlan) -> str | None:
    """Return the value of sbatch's --export, None without the option: of a volunteer where a candidate is looked at."""
    if export is None or plan.link == "current":
        return export
    return "ENVMGR_USE=candidate" if export == "NONE" else "ALL,ENVMGR_USE=candidate"


NOT_SENT = "no job was sent: "


def held_back(nodes: Iterable[str], clean: Fleet | None) -> dict[str, str]:
    """Return the nodes that get no job and no further shells, each with the reason: what they said over ssh, or that
    something hangs there. None if ssh was not asked.
    """
    if clean is None:
        return {}
    fit = frozenset(clean.sound.only(lambda facts: "mount.hung" not in facts).nodes)
    why = {reply.node: f"it did not answer over ssh first ({reply.reason})" for reply in clean.missing}
    for node, facts in clean.told.items():
        hung = facts["mount.hung"].partition(" ")[0] if "mount.hung" in facts else "its prefix"
        why[node] = facts.get("probe") or f"{hung} does not answer, and a job stuck on it would drain the node"
    return {node: why[node] for node in nodes if node in why and node not in fit}


_MOST = 64  # nodes that are asked; further nodes will have the same cause


def nodes_to_ask(ways: Mapping[str, Fleet]) -> tuple[str, ...]:
    """Return nodes that answered over ssh, and on which a job began and did not answer."""
    sound = {*ways.get("ssh", NO_FLEET).sound.nodes}
    lost = (reply for way, fleet in ways.items() if way != "ssh" for reply in fleet.missing)
    nodes = dict.fromkeys(reply.node for reply in lost if reply.status == "silent" and reply.node in sound)
    return tuple(nodes)[:_MOST]


def log_part(seconds: float) -> ProbePart:
    """Return the part of the probe that asks for what slurmd logged in the last `seconds`."""
    return ProbePart("slurmd_log", {"node": assign(ago=int(seconds) + 2) + script_text(__file__, "slurmd_log.sh")})
