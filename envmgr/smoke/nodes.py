"""Smoke tests on nodes: each entry's own commands where its users will run them, as an ordinary user; equal ends folded."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.lmod import Lmod
from envmgr.modules.spec import ModuleSpec
from envmgr.nodes import Reply, ask_nodes, fold
from envmgr.probe.here import look_here
from envmgr.probe.model import Facts, ProbePart, ProbePlan, Way
from envmgr.probe.shell import GATE_SECONDS, join_probes, part_seconds, read_answer
from envmgr.report import Reporter
from envmgr.smoke import SmokeOutcome
from envmgr.smoke.here import SKIPS, detail_of, ending, no_end
from envmgr.smoke.script import NodeTest, jobs_of, node_script, seconds_of
from envmgr.system.run import Runner
from envmgr.system.users import require_account, this_account

_AROUND = 8.0  # seconds that a node needs after the last test's time is over, at most


@dataclass(frozen=True, slots=True)
class NodeOutcome(SmokeOutcome):
    """How one test ended on `nodes` (folded), alike on all. `seconds` is the slowest node's time, `fastest` the fastest's."""

    nodes: str
    fastest: float


@dataclass(frozen=True, slots=True)
class Missing:
    """Nodes (folded) of which not everything is known.

    `silent` and `unreachable` are as in `Reply`; `hung`: the prefix does not answer, or a test cannot be ended; `unfit`: no
    test can be run there; `late`: not all tests were run.
    """

    nodes: str
    status: Literal["silent", "unreachable", "hung", "unfit", "late"]
    reason: str


@dataclass(frozen=True, slots=True)
class RunAccount:
    """The user that runs the tests, and the login user on nodes (None: as the site says)."""

    user: str
    login: str | None


def choose_account(site: Site, via: Way, named: str | None) -> RunAccount:
    """The ordinary user: `named`, else `audit.user`, else the build user, where we may become others; else the connecting one.

    Raises:
        InputError: `test-user` for root, and for a user that we cannot become.
        InputError: `unknown-user` for a step's user that does not exist here.
    """
    if named == "root":
        raise InputError(
            "test-user", "smoke tests are not run as root", context="--user root", hint="name an ordinary user"
        )
    me = this_account().name
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
    """EnvmgrError `mount-lost` where this host's prefix hangs, before anything of ours hangs on it."""
    if (
        look_here(_plan(site, "", part_seconds(site.transport.node_timeout)), runner, site.transport.deadline)["gate"]
        == "hung"
    ):
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
) -> tuple[tuple[NodeOutcome, ...], tuple[Missing, ...]]:
    """Every test of every entry on every node; one node's tests run one after the other.

    A node is told to end within `deadline`, seconds of wall-clock time, whatever its tests' own timeouts allow. Over Slurm a
    node gets a step only when its prefix answered over ssh, unless the site has no ssh: a step stuck on it drains the node.
    """
    end = time.monotonic() + deadline
    jobs = jobs_of(specs, modules, lmodrc, lmod, site.transport.slurm_options)
    folding = _Folding(jobs, deadline)
    fit = list(nodes)
    if via == "slurm" and site.transport.via != "slurm":
        gate = join_probes([], _plan(site, account.user, part_seconds(site.transport.node_timeout)))
        with reporter.stage("look", total=len(nodes), unit="nodes") as stage:
            looked: dict[str, Reply] = {}

            def look(reply: Reply) -> None:
                looked[reply.node] = reply
                stage.update(len(looked), detail=reply.node)

            ask_nodes(
                nodes, gate, site=site, via="ssh", runner=runner, on_reply=look,
                timeout=min(site.transport.node_timeout, GATE_SECONDS + _AROUND), deadline=deadline, fresh=True,
            )  # fmt: skip
        fit = [node for node in nodes if folding.admit(looked[node])]
    left = max(1.0, end - time.monotonic())
    seconds = max(1.0, min(seconds_of(jobs), left - _AROUND))
    whole = seconds + GATE_SECONDS + _AROUND
    part = ProbePart("smoke", {"prefix": node_script(jobs, seconds=seconds)})
    script = join_probes([part], _plan(site, account.user, math.ceil(seconds + _AROUND)))
    with reporter.stage("tests", total=len(fit), unit="nodes") as stage:

        def take(reply: Reply) -> None:
            folding.take(reply)
            stage.update(folding.taken, detail=reply.node)

        ask_nodes(
            fit, script, site=site, via=via, runner=runner, on_reply=take, timeout=whole, deadline=left,
            user=account.login, fresh=True,
        )  # fmt: skip
    return folding.outcomes(), folding.missing()


def _plan(site: Site, user: str, seconds: int) -> ProbePlan:
    """`seconds` are for the tests of one node together, when its prefix has answered."""
    return ProbePlan(prefix=str(site.prefix), user=user, build_user=site.build_user or "", seconds=seconds)


@dataclass(slots=True)
class _Folding:
    """Takes replies as they come; what is kept of a node is how its tests ended."""

    jobs: Sequence[NodeTest]
    deadline: float
    taken: int = 0
    _ends: dict[str, dict[tuple[str, str], list[tuple[str, float]]]] = field(default_factory=dict)
    _missing: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def admit(self, reply: Reply) -> bool:
        """Whether the node may get a Slurm step, by its answer over ssh."""
        if reply.status != "answered":
            self._miss(reply.node, reply.status, f"no step was started: over ssh first: {reply.reason}")
            return False
        return self._gate(reply.node, read_answer(reply.text)[0], "no step was started: ")

    def take(self, reply: Reply) -> None:
        self.taken += 1
        if reply.status != "answered":
            self._miss(reply.node, reply.status, reply.reason)
            return
        facts, own, _ = read_answer(reply.text)
        if not self._gate(reply.node, facts, ""):
            return
        if unfit := facts.get("unfit"):
            self._miss(reply.node, "unfit", unfit)
            return
        unknown: list[NodeTest] = []
        stuck = ""
        for job in self.jobs:
            if (how := _how(job, facts, own)) is not None:
                seconds = _milliseconds(own.get(f"{job.key}.ms", "")) / 1000
                self._ends.setdefault(job.key, {}).setdefault(how, []).append((reply.node, seconds))
            elif by := facts.get(f"{job.key}.stuck"):
                what = "the prefix does not answer" if by == "prefix" else "a process of it outlives SIGKILL"
                stuck = f"{_name(job)}: {what}"
            else:
                unknown.append(job)
        rest = ", ".join(map(_name, unknown[:3])) + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else "")
        if stuck:
            self._miss(reply.node, "hung", stuck + (f"; not run: {rest}" if rest else ""))
        elif rest:
            self._miss(reply.node, "late", f"the deadline of {self.deadline:g} s was over before the end of {rest}")

    def _gate(self, node: str, facts: Facts, before: str) -> bool:
        gate = facts.get("gate", "")
        if gate == "hung":
            self._miss(node, "hung", f"{before}the prefix does not answer")
        elif gate != "ok":
            self._miss(
                node, "unfit", before + (f"the prefix cannot be used: {gate}" if gate else "no sense in its answer")
            )
        return gate == "ok"

    def _miss(self, node: str, status: str, reason: str) -> None:
        self._missing.setdefault((status, reason), []).append(node)

    def outcomes(self) -> tuple[NodeOutcome, ...]:
        """By test; of one test the commonest end first."""
        found = []
        for job in self.jobs:
            for (status, detail), ended in sorted(
                self._ends.get(job.key, {}).items(), key=lambda i: (-len(i[1]), i[0])
            ):
                times = [seconds for _, seconds in ended]
                found.append(
                    NodeOutcome(
                        job.entry, job.test.name, status, detail, max(times),  # type: ignore[arg-type]
                        fold(node for node, _ in ended), min(times),
                    )
                )  # fmt: skip
        return tuple(found)

    def missing(self) -> tuple[Missing, ...]:
        return tuple(
            Missing(fold(nodes), status, reason)  # type: ignore[arg-type]
            for (status, reason), nodes in sorted(self._missing.items())
        )


def _name(job: NodeTest) -> str:
    return f"{job.entry} `{job.test.name}`"


def _how(job: NodeTest, facts: Facts, own: Facts) -> tuple[str, str] | None:
    """Status and detail of one test; None where it was not run to its end."""
    if skip := facts.get(f"{job.key}.skip"):
        return "skipped", SKIPS.get(skip, skip)
    status = facts.get(f"{job.key}.rc", "")
    if status == "timeout":
        end = no_end(job.test)
    elif status.isdigit():
        end = ending(int(status))
    else:
        return None
    return ("failed" if end else "passed"), detail_of(_plain(job, facts.get(f"{job.key}.out", ""), own), end)


def _plain(job: NodeTest, output: str, own: Facts) -> str:
    """Without what differs from node to node for no reason of the test: so that equal failures fold."""
    if scratch := own.get("scratch"):
        folder = f"{scratch}/{job.key}"
        output = output.replace(f"{folder}/test.sh", "test.sh").replace(f"{folder}/home", "$HOME")
    return output.replace(f"envmgr: on {own.get('host')}: ", "envmgr: ")


def _milliseconds(text: str) -> int:
    return int(text) if text.isdigit() else 0
