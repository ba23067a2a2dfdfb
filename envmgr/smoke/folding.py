"""Answers of nodes to smoke tests: how each test ended and where, equal ends folded; and missing nodes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from envmgr.nodes.envelope import Reply
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts
from envmgr.probe.shell import read_answer
from envmgr.smoke import SmokeOutcome
from envmgr.smoke.here import SKIPS, detail_of, end_of_test, no_end
from envmgr.smoke.script import NodeTest
from envmgr.wording import and_more


@dataclass(frozen=True, slots=True)
class NodeOutcome(SmokeOutcome):
    """The end of one test, alike on all `nodes` (folded). `seconds` is the slowest node's time, `fastest` the
    fastest's.
    """

    nodes: str
    fastest: float


@dataclass(frozen=True, slots=True)
class Missing:
    """Nodes (folded) of which not everything is known.

    `silent` and `unreachable` are as in `Reply`; `hung`: the prefix does not answer, or a test cannot be ended;
    `unfit`: no test can be run there; `late`: not all tests were run.
    """

    nodes: str
    status: Literal["silent", "unreachable", "hung", "unfit", "late"]
    reason: str


@dataclass(slots=True)
class OutcomeFolding:
    """Takes replies as they come; what is kept of a node is how its tests ended."""

    jobs: Sequence[NodeTest]
    deadline: float
    taken: int = 0
    _ends: dict[str, dict[tuple[str, str], list[tuple[str, float]]]] = field(default_factory=dict)
    _missing: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def admit(self, reply: Reply) -> bool:
        """Return whether the node may get a Slurm step, by its answer over ssh."""
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
        rest = and_more([*map(_name, unknown)], 3)
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
        """Return the ends by test; of one test the commonest first."""
        found = []
        for job in self.jobs:
            for (status, detail), ended in sorted(
                self._ends.get(job.key, {}).items(), key=lambda i: (-len(i[1]), i[0])
            ):
                times = [seconds for _, seconds in ended]
                found.append(
                    NodeOutcome(
                        job.entry,
                        job.test.name,
                        status,  # type: ignore[arg-type]
                        detail,
                        max(times),
                        fold(node for node, _ in ended),
                        min(times),
                    )
                )
        return tuple(found)

    def missing(self) -> tuple[Missing, ...]:
        return tuple(
            Missing(fold(nodes), status, reason)  # type: ignore[arg-type]
            for (status, reason), nodes in sorted(self._missing.items())
        )


def _name(job: NodeTest) -> str:
    return f"{job.entry} `{job.test.name}`"


def _how(job: NodeTest, facts: Facts, own: Facts) -> tuple[str, str] | None:
    """Return status and detail of one test; None if it did not run to its end."""
    if skip := facts.get(f"{job.key}.skip"):
        return "skipped", SKIPS.get(skip, skip)
    status = facts.get(f"{job.key}.rc", "")
    if status == "timeout":
        end = no_end(job.test)
    elif status.isdigit():
        end = end_of_test(int(status))
    else:
        return None
    return ("failed" if end else "passed"), detail_of(_plain(job, facts.get(f"{job.key}.out", ""), own), end)


def _plain(job: NodeTest, output: str, own: Facts) -> str:
    """Return the output without parts that differ between nodes for no reason of the test, so that equal failures
    fold.
    """
    if scratch := own.get("scratch"):
        folder = f"{scratch}/{job.key}"
        output = output.replace(f"{folder}/test.sh", "test.sh").replace(f"{folder}/home", "$HOME")
    return output.replace(f"envmgr: on {own.get('host')}: ", "envmgr: ")


def _milliseconds(text: str) -> int:
    return int(text) if text.isdigit() else 0
