"""The smoke tests of all entries as one script for a node, and the nodes' answers: how each test ended and where, equal
ends folded; and missing nodes.

The script is a part of a probe, run once the node's prefix has answered. The node's shell never touches the prefix.
Each test is a session of its own, which a signal reaches whole, and a watcher ends it when that shell is gone: the
connection was cut, or the user pressed Ctrl-C.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from envmgr.catalog.recipe_parts import SmokeTest
from envmgr.modules.lmod import Lmod
from envmgr.modules.spec import ModuleSpec
from envmgr.nodes.envelope import Reply
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts
from envmgr.probe.shell import read_answer
from envmgr.smoke import SmokeOutcome
from envmgr.smoke.here import GPU_FILES, MARKS, SKIPS, SLURM_VARIABLES, detail_of, end_of_test, script_of, tests_of
from envmgr.system.run import clean_env
from envmgr.system.shelltext import assign, script_text
from envmgr.wording import and_more

_TICKS = 20  # a second: the node looks every 0.05 s
_TAIL = 8192  # bytes of a failed test's output that are kept: its end
_ALL_TAILS = 1 << 18  # bytes of all of them together


@dataclass(frozen=True, slots=True)
class NodeTest:
    """One test of one entry; `key` is the beginning of its facts from a node."""

    key: str
    entry: str
    test: SmokeTest
    script: str


def jobs_of(
    specs: Sequence[ModuleSpec], modules: Path, lmodrc: Path, lmod: Lmod, slurm_options: Sequence[str]
) -> list[NodeTest]:
    """Return the tests of all entries, in order. `slurm_options` are as for `script_of`."""
    pairs = [(spec.entry, test) for spec in specs for test in tests_of(spec)]
    return [
        NodeTest(f"t{number}", entry, test, script_of(entry, test, modules, lmodrc, lmod, slurm_options))
        for number, (entry, test) in enumerate(pairs)
    ]


def seconds_of(jobs: Sequence[NodeTest]) -> float:
    """Return the longest time that a node can take, including the overhead around each test."""
    return sum(job.test.timeout + 5 for job in jobs)


def node_script(jobs: Sequence[NodeTest], *, seconds: float, given: Mapping[str, str] | None = None) -> str:
    """Return the part of a probe that runs `jobs`, one after the other, in `seconds` altogether; needs `$prefix` and
    `$user`.

    `given` are variables, each one word, that tests which need Slurm have instead of the step's own.
    """
    # script.run.sh sets these itself, to the test's own home and user.
    clean = {k: v for k, v in clean_env().items() if k not in {"HOME", "USER", "LOGNAME", "TMPDIR"}}
    begin = assign(
        gpu_files=" ".join(GPU_FILES),
        killer=script_text(__file__, "kill.sh"),
        watcher=script_text(__file__, "watch.sh"),
        marks=" ".join(f"{mark}={lacking}" for mark, lacking in MARKS.items()),
        limit=math.ceil(seconds * _TICKS),
        # Many tests share one limit, so that the whole answer of a node stays small.
        most=max(1024, min(_TAIL, _ALL_TAILS // max(1, len(jobs)))),
        ticks_a_second=_TICKS,
    ) + script_text(__file__, "begin.sh")
    of_one = assign(
        clean=" ".join(f"{name}={value}" for name, value in clean.items()),
        path=clean["PATH"],
        slurm_variables=" ".join(SLURM_VARIABLES),
        slurm_given=" ".join(f"{name}={value}" for name, value in (given or {}).items()),
    )
    # A quoted word after `<<`: the node's shell expands nothing in the text.
    run = f"write_run <<'ENVMGR_RUN'\n{of_one}{script_text(__file__, 'run.sh')}ENVMGR_RUN\n"
    return "".join([begin, run, *map(_one, jobs), "echo done >&3\n"])


def _one(job: NodeTest) -> str:
    """Return the lines that run a test. Every line of the test begins with `|`, so that none ends a here-document."""
    text = "".join(f"|{line}\n" for line in job.script.replace("\0", "").split("\n"))
    needs = "+".join(job.test.needs) or "-"
    ticks = math.ceil(job.test.timeout * _TICKS)
    return f"take {job.key} <<'ENVMGR_TEST'\n{text}ENVMGR_TEST\nrun_test {job.key} {ticks} {needs}\n"


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


End = tuple[Literal["passed", "failed", "skipped"], str]  # the status of a test, and its detail


@dataclass(slots=True)
class OutcomeFolding:
    """Takes replies as they come; what is kept of a node is how its tests ended."""

    jobs: Sequence[NodeTest]
    deadline: float
    taken: int = 0
    _ends: dict[str, dict[End, list[tuple[str, float]]]] = field(default_factory=dict)
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
                taken = own.get(f"{job.key}.ms", "")
                seconds = int(taken) / 1000 if taken.isdigit() else 0.0
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
            ends = self._ends.get(job.key, {})
            for end, seen in sorted(ends.items(), key=lambda pair: (-len(pair[1]), pair[0])):
                nodes, times = fold(node for node, _ in seen), [seconds for _, seconds in seen]
                found.append(NodeOutcome(job.entry, job.test.name, *end, max(times), nodes, min(times)))
        return tuple(found)

    def missing(self) -> tuple[Missing, ...]:
        return tuple(
            Missing(fold(nodes), status, reason)  # type: ignore[arg-type]
            for (status, reason), nodes in sorted(self._missing.items())
        )


def _name(job: NodeTest) -> str:
    return f"{job.entry} `{job.test.name}`"


def _how(job: NodeTest, facts: Facts, own: Facts) -> End | None:
    """Return status and detail of one test; None if it did not run to its end."""
    if skip := facts.get(f"{job.key}.skip"):
        return "skipped", SKIPS.get(skip, skip)
    status = facts.get(f"{job.key}.rc", "")
    if status != "timeout" and not status.isdigit():
        return None
    end = end_of_test(job.test, None if status == "timeout" else int(status))
    return ("failed" if end else "passed"), detail_of(_plain(job, facts.get(f"{job.key}.out", ""), own), end)


def _plain(job: NodeTest, output: str, own: Facts) -> str:
    """Return the output without parts that differ between nodes for no reason of the test, so that equal failures
    fold.
    """
    if scratch := own.get("scratch"):
        folder = f"{scratch}/{job.key}"
        output = output.replace(f"{folder}/test.sh", "test.sh").replace(f"{folder}/home", "$HOME")
    return output.replace(f"envmgr: on {own.get('host')}: ", "envmgr: ")
