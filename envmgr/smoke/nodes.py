"""Smoke tests on nodes: each entry's own commands, as an ordinary user; equal ends folded."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.lmod import Lmod
from envmgr.modules.spec import ModuleSpec
from envmgr.nodes.access import ask_slurm
from envmgr.nodes.allocation import Allocation, allocated
from envmgr.nodes.envelope import Reply
from envmgr.nodes.fanout import ask_nodes
from envmgr.nodes.sets import fold
from envmgr.probe.model import ProbePart, ProbePlan, Way
from envmgr.probe.prefix import look_here
from envmgr.probe.shell import GATE_SECONDS, join_probes, part_seconds
from envmgr.report import Reporter
from envmgr.smoke import too_few
from envmgr.smoke.script import Missing, NodeOutcome, NodeTest, OutcomeFolding, jobs_of, node_script, seconds_of
from envmgr.system.run import Runner
from envmgr.system.usernames import own_name
from envmgr.system.users import require_account

_AROUND = 8.0  # seconds that a node needs after the last test's time is over, at most


@dataclass(frozen=True, slots=True)
class RunAccount:
    """The user that runs the tests, and the login user on nodes (None: as the site says)."""

    user: str
    login: str | None


def choose_account(site: Site, via: Way, named: str | None) -> RunAccount:
    """Return the ordinary user: `named`, `audit.user` or the build user where we may become others; else our own.

    Raises:
        InputError: `test-user` for root, and for a user that we cannot become.
        InputError: `unknown-user` for a step's user that does not exist here.
    """
    if named == "root":
        raise InputError(
            "test-user", "smoke tests are not run as root", context="--user root", hint="name an ordinary user"
        )
    me = own_name()
    ordinary = named or site.audit.user or site.build_user or "nobody"
    if via == "slurm":
        if os.geteuid() != 0:
            if named not in {None, me}:
                raise InputError("test-user", f"only root can start a Slurm step of {named}", context=f"you are {me}")
            return RunAccount(me, None)
        return RunAccount(require_account(ordinary).name, ordinary)
    login = site.transport.user or me
    if login == "root" or site.transport.become:
        return RunAccount(ordinary, None)
    return RunAccount(named or login, named)


def look_at_prefix(site: Site, runner: Runner) -> None:
    """Raise EnvmgrError `mount-lost` if this host's prefix hangs, before any other process hangs on it."""
    plan = _plan(site, "", part_seconds(site.transport.node_timeout))
    if look_here(plan, runner, site.transport.deadline)["gate"] == "hung":
        raise EnvmgrError(
            "mount-lost",
            f"{site.prefix} does not answer on this host",
            hint="mount it again, or test from another host",
        )


def run_on_nodes(
    nodes: Sequence[str],
    specs: Sequence[ModuleSpec],
    modules: Path,
    lmodrc: Path,
    *,
    site: Site,
    via: Way,
    account: RunAccount,
    lmod: Lmod,
    runner: Runner,
    reporter: Reporter,
    deadline: float,
    count: int | None = None,
) -> tuple[tuple[str, ...], tuple[NodeOutcome, ...], tuple[Missing, ...]]:
    """Run every test of every entry on every node, one node's tests one after the other. Return the nodes first.

    With `count`, this many of `nodes`, which Slurm chooses, run them in one job. Tests of several nodes also run there,
    after the other tests, once over all of them. Without `count`, or with too small a one, such tests do not run.

    A node has to end within `deadline`, seconds of wall-clock time, whatever its tests' own timeouts allow. Over Slurm
    a node gets a step only if its prefix answered over ssh, unless the site has no ssh: a step stuck on it drains the
    node.

    Raises:
        EnvmgrError: with `count`, what `allocated` raises; `too-few-nodes` if fewer are fit.
    """
    jobs = jobs_of(specs, modules, lmodrc, lmod, site.transport.slurm_options)
    alone = [job for job in jobs if job.test.nodes == 1]
    together = [job for job in jobs if 1 < job.test.nodes <= (count or 1)]
    folding = OutcomeFolding(alone, deadline)
    asking = _NodeTester(site, via, account, runner, reporter, time.monotonic() + deadline)
    fit = asking.look(nodes, folding) if via == "slurm" and site.transport.via != "slurm" else list(nodes)
    chosen, ends, missing = tuple(nodes), list[NodeOutcome](), list[Missing]()
    if count is None:
        asking.ask("tests", fit, folding)
        ends, missing = [*folding.outcomes()], [*folding.missing()]
    else:
        chosen, ends, missing = _in_one_job(asking, count, fit, together, folding)
    ends += [
        NodeOutcome(job.entry, job.test.name, "not-run", too_few(job.entry, job.test.nodes), 0, "", 0)
        for job in jobs
        if job.test.nodes > (count or 1)
    ]
    order = {(job.entry, job.test.name): number for number, job in enumerate(jobs)}
    return chosen, tuple(sorted(ends, key=lambda end: order[end.entry, end.test])), tuple(missing)


def _in_one_job(
    asking: _NodeTester, count: int, fit: Sequence[str], together: Sequence[NodeTest], folding: OutcomeFolding
) -> tuple[tuple[str, ...], list[NodeOutcome], list[Missing]]:
    """Run the tests of `folding` and those of several nodes (`together`) in one job. Nodes that are not fit do not
    matter where enough others are.
    """
    alone, unfit = folding.jobs, folding.missing()
    if len(fit) < count:
        raise EnvmgrError(
            "too-few-nodes",
            f"{len(fit)} of the nodes can run tests, and {count} are asked for",
            context=[f"{missing.status}: {missing.nodes}: {missing.reason}" for missing in unfit],
            hint="a smaller -N, more nodes by `--nodes SET`, or `envmgr audit` for those that cannot",
        )
    for missing in unfit:
        asking.reporter.say(f"without {missing.nodes}: {missing.status}: {missing.reason}")
    # Twice, because the tests on each node and those over all nodes are two rounds of steps.
    seconds = seconds_of([*alone, *together]) + 2 * (GATE_SECONDS + _AROUND)
    left = asking.left()
    with allocated(
        count,
        fit,
        slurm=ask_slurm(asking.runner),
        site=asking.site,
        runner=asking.runner,
        user=asking.account.login,
        seconds=min(seconds, left),
        # The queue may take half of the time at most: the tests need the rest.
        patience=min(asking.site.transport.queue_timeout, left / 2),
    ) as job:
        on_each = OutcomeFolding(alone, folding.deadline)
        if alone:
            asking.ask("tests", job.nodes, on_each, job)
        over_all = OutcomeFolding(together, folding.deadline)
        if together:
            # One test over all nodes starts on the first node only, as a batch script does.
            asking.ask("tests of several nodes", job.nodes[:1], over_all, job)
    ends = [*on_each.outcomes(), *(replace(end, nodes=fold(job.nodes)) for end in over_all.outcomes())]
    # A node that fails in both rounds for one reason is reported once.
    return job.nodes, ends, list(dict.fromkeys([*on_each.missing(), *over_all.missing()]))


@dataclass(frozen=True, slots=True)
class _NodeTester:
    """Asks nodes one way, until `end` (monotonic)."""

    site: Site
    via: Way
    account: RunAccount
    runner: Runner
    reporter: Reporter
    end: float

    def left(self) -> float:
        return max(1.0, self.end - time.monotonic())

    def look(self, nodes: Sequence[str], folding: OutcomeFolding) -> list[str]:
        """Return the nodes whose prefix answers over ssh; `folding` gets the reasons of the others."""
        gate = join_probes([], _plan(self.site, self.account.user, part_seconds(self.site.transport.node_timeout)))
        looked: dict[str, Reply] = {}
        with self.reporter.stage("look", total=len(nodes), unit="nodes") as stage:

            def look(reply: Reply) -> None:
                looked[reply.node] = reply
                stage.update(len(looked), detail=reply.node)

            ask_nodes(
                nodes,
                gate,
                site=self.site,
                via="ssh",
                runner=self.runner,
                on_reply=look,
                deadline=self.left(),
                timeout=min(self.site.transport.node_timeout, GATE_SECONDS + _AROUND),
                fresh=True,
            )
        return [node for node in nodes if folding.admit(looked[node])]

    def ask(self, label: str, nodes: Sequence[str], folding: OutcomeFolding, job: Allocation | None = None) -> None:
        """Run the tests of `folding` on each of `nodes`, in steps of `job` if there is one."""
        left, tests = self.left(), folding.jobs
        seconds = max(1.0, min(seconds_of(tests), left - _AROUND))
        given = job.environ if job is not None else None
        part = ProbePart("smoke", {"prefix": node_script(tests, seconds=seconds, given=given)})
        script = join_probes([part], _plan(self.site, self.account.user, math.ceil(seconds + _AROUND)))
        with self.reporter.stage(label, total=len(nodes), unit="nodes") as stage:

            def take(reply: Reply) -> None:
                folding.take(reply)
                stage.update(folding.taken, detail=reply.node)

            ask_nodes(
                nodes,
                script,
                site=self.site,
                via=self.via,
                runner=self.runner,
                on_reply=take,
                deadline=left,
                timeout=seconds + GATE_SECONDS + _AROUND,
                user=self.account.login,
                fresh=True,
                job=None if job is None else job.job,
            )


def _plan(site: Site, user: str, seconds: int) -> ProbePlan:
    """Return the plan. `seconds` is the time for all tests of one node, from the answer of its prefix."""
    return ProbePlan(prefix=str(site.prefix), user=user, build_user=site.build_user or "", seconds=seconds)
