"""`envmgr test`, here or on nodes: check that what is published still works."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from envmgr.errors import InputError
from envmgr.nodes.sets import expand, fold, resolve_nodes
from envmgr.probe.model import Way
from envmgr.publish.records import published_spec, read_specs
from envmgr.report import Lines, Result
from envmgr.smoke import MARKS, REASONED, SmokeOutcome, failed_lines, outcome_lines
from envmgr.smoke.here import run_smoke_tests
from envmgr.smoke.nodes import choose_account, look_at_prefix, run_on_nodes
from envmgr.smoke.script import Missing, NodeOutcome
from envmgr.steps import Context, choose_published
from envmgr.steps.opening import to_write
from envmgr.steps.status import keep_status
from envmgr.store.node_tests import SeenTest, save_node_tests
from envmgr.verbs import DeadlineOption, GenerationOption, SomeEntries, needs, option
from envmgr.wording import counted


@dataclass(frozen=True, slots=True)
class TestResult(Result):
    schema: ClassVar[str] = "envmgr.test/1"
    generation: int
    tests: tuple[SmokeOutcome, ...]

    @property
    def exit_code(self) -> int:
        return 1 if any(t.status == "failed" for t in self.tests) else 0

    def lines(self) -> Lines:
        yield from outcome_lines(self.tests)
        yield f"generation {self.generation}"


@dataclass(frozen=True, slots=True)
class NodeTestResult(Result):
    """The result of tests on nodes. `tests` as in `TestResult`, each with its nodes.

    `nodes` is folded; `user` ran the tests; `seconds` is wall-clock.
    """

    schema: ClassVar[str] = "envmgr.test-nodes/1"
    generation: int
    tests: tuple[NodeOutcome, ...]
    nodes: str
    count: int
    via: Way
    user: str
    missing: tuple[Missing, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        if any(t.status == "failed" for t in self.tests):
            return 1
        return 3 if self.missing else 0

    def lines(self) -> Lines:
        for test in self.tests:
            fastest, slowest = f"{test.fastest:.1f}", f"{test.seconds:.1f}"
            known = test.detail if test.status in REASONED else f"{fastest}{f'-{slowest}' * (slowest != fastest)} s"
            status = MARKS[test.status] if test.status in REASONED else test.status
            yield f"{test.entry} {test.test}: {status}{f' on {test.nodes}' if test.nodes else ''} ({known})"
            yield from failed_lines(test)
        for missing in self.missing:
            yield f"{missing.status}: {missing.nodes}: {missing.reason}"
        way = "Slurm" if self.via == "slurm" else self.via
        yield f"generation {self.generation}, on {counted(self.count, 'nodes')} by {way}, as {self.user}"


@needs("mount")
def run_tests(
    ctx: Context,
    entries: SomeEntries = None,
    nodes: Annotated[
        str | None, option("Run the tests on these nodes, such as c[1-3] or @gpu; by default on this machine.", "SET")
    ] = None,
    via: Annotated[
        Literal["ssh", "slurm"] | None,
        option("Run the tests on nodes, by ssh or in Slurm jobs; on all groups unless you give --nodes."),
    ] = None,
    count: Annotated[
        int | None, option("Run each test once, in one Slurm job on this many of the nodes.", "COUNT", "-N", min=1)
    ] = None,
    user: Annotated[str | None, option("Run the tests on nodes as this user, who must not be root.", "NAME")] = None,
    generation: GenerationOption = None,
    deadline: DeadlineOption = None,
) -> Result:
    """Run the tests of published entries, here or on nodes.

    On nodes an ordinary user runs them. The exit code is 1 when a test failed, and 3 when the result of a node is not
    known. Tests that need several nodes run with -N.
    """
    here = nodes is None and via is None and count is None
    # root must not run an entry's commands as root; on nodes another user runs them, and root's keys are needed
    if here and os.geteuid() == 0:
        ctx = to_write(ctx)
    if not here:
        return _on_nodes(
            ctx, entries or (), nodes=nodes, count=count, user=user, deadline=deadline, via=via, generation=generation
        )
    if user is not None or deadline is not None:
        hint = "add `--nodes SET`, or `--via ssh` for all"
        raise InputError("test-user", "--user and --deadline are for nodes", hint=hint)
    return _here(ctx, entries or (), generation)


def _here(ctx: Context, names: Sequence[str], generation: int | None = None) -> TestResult:
    """Run the smoke tests of published entries on this machine, through the published modules, or those of another
    `generation`.
    """
    current, chosen = choose_published(ctx, names, generation)
    lmod = ctx.find_lmod()
    folder = ctx.prefix.generation(current.number)
    specs = read_specs(ctx.prefix, current.number)
    modules, lmodrc, options = folder / "modules", folder / "lmodrc.lua", ctx.site.transport.slurm_options
    outcomes: list[SmokeOutcome] = []
    for name in chosen:
        spec = published_spec(specs[name]).spec
        outcomes += run_smoke_tests(spec, modules, lmodrc, lmod, ctx.runner, ctx.reporter, slurm_options=options)
    return TestResult(current.number, tuple(outcomes))


def _on_nodes(
    ctx: Context,
    names: Sequence[str],
    *,
    nodes: str | None,
    via: Way | None,
    user: str | None,
    deadline: float | None,
    count: int | None = None,
    generation: int | None = None,
) -> NodeTestResult:
    """Run the smoke tests of published entries on `nodes` (None: all groups) through the published modules, or those of
    another `generation`, as an ordinary user. What was seen is kept for `promote`.

    With `count`, on that many of them, in one Slurm job. `deadline` is wall-clock seconds for everything, the site's if
    None.

    Raises:
        InputError: `test-user`, `test-count`; unknown nodes or entries.
        EnvmgrError: `mount-lost` where the prefix hangs here; with `count`, what `run_on_nodes` raises.
    """
    began = time.monotonic()
    if count is not None and via == "ssh":
        raise InputError("test-count", "-N is the size of a Slurm job", context="--via ssh", hint="`--via slurm`")
    way = ctx.way("slurm" if count is not None else via)
    account = choose_account(ctx.site, way, user)
    chosen_nodes = resolve_nodes(nodes, ctx.site, ctx.runner)
    # Before the first read of the prefix: on a hung mount that read would never return.
    look_at_prefix(ctx.site, ctx.runner)
    current, chosen = choose_published(ctx, names, generation)
    folder = ctx.prefix.generation(current.number)
    specs = read_specs(ctx.prefix, current.number)
    asked, tests, missing = run_on_nodes(
        chosen_nodes,
        [published_spec(specs[name]).spec for name in dict.fromkeys(chosen)],
        folder / "modules",
        folder / "lmodrc.lua",
        site=ctx.site,
        via=way,
        account=account,
        lmod=ctx.find_lmod(),
        runner=ctx.runner,
        reporter=ctx.reporter,
        deadline=deadline or ctx.site.transport.deadline,
        count=count,
    )
    now = time.time()
    seen = [SeenTest(entry=t.entry, test=t.test, status=t.status, nodes=expand(t.nodes), time=now) for t in tests]
    if why := save_node_tests(ctx.site, current.number, seen, check=ctx.runner.raise_if_cancelled):
        ctx.reporter.say(f"warning: the results are not kept, and `envmgr promote` will not see them: {why}")
    else:
        keep_status(ctx)
    return NodeTestResult(
        current.number, tests, fold(asked), len(asked), way, account.user, missing, round(time.monotonic() - began, 3)
    )
