"""`envmgr test`, here or on nodes, and `envmgr verify`: does what is published still work, and is it still what was built?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envmgr.commands import Context, published_record, require_published
from envmgr.finding import Finding
from envmgr.modules.lmod import find_lmod
from envmgr.nodes import fold, resolve_nodes
from envmgr.probe.model import Way
from envmgr.publish.record import GenerationRecord, published_spec, read_specs
from envmgr.smoke.here import SmokeOutcome, run_smoke_tests
from envmgr.smoke.nodes import Missing, NodeOutcome, choose_account, look_at_prefix, run_on_nodes
from envmgr.store.verify import verify_install


@dataclass(frozen=True, slots=True)
class TestResult:
    schema: ClassVar[str] = "envmgr.test/1"
    generation: int
    tests: tuple[SmokeOutcome, ...]

    @property
    def exit_code(self) -> int:
        return 1 if any(t.status == "failed" for t in self.tests) else 0


@dataclass(frozen=True, slots=True)
class NodeTestResult:
    """`tests` as `TestResult` has them, each with its nodes. `nodes` is folded; `user` ran the tests; `seconds` is wall-clock."""

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


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """`checked` are entries; each finding is one path of an install that is not as its manifest says."""

    schema: ClassVar[str] = "envmgr.verify/1"
    checked: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        return 1 if self.findings else 0


def test_entries(ctx: Context, names: Sequence[str]) -> TestResult:
    """Run the smoke tests of published entries on this machine, through the published modules."""
    current, chosen = _chosen(ctx, names)
    lmod = find_lmod(ctx.site.lmod.dir, ctx.environ, runner=ctx.runner)
    folder = ctx.prefix.generation(current.number)
    specs = read_specs(ctx.prefix, current.number)
    outcomes: list[SmokeOutcome] = []
    for name in chosen:
        spec = published_spec(specs[name]).spec
        outcomes += run_smoke_tests(
            spec, folder / "modules", folder / "lmodrc.lua", lmod, ctx.runner, ctx.reporter,
            slurm_options=ctx.site.transport.slurm_options,
        )  # fmt: skip
    return TestResult(current.number, tuple(outcomes))


def test_on_nodes(
    ctx: Context,
    names: Sequence[str],
    *,
    nodes: str | None,
    via: Way | None,
    user: str | None,
    deadline: float | None,
) -> NodeTestResult:
    """Run the smoke tests of published entries on `nodes` (None: all groups), as an ordinary user, through the published modules.

    `deadline` is wall-clock seconds for everything, the site's if None.

    Raises:
        InputError: `test-user`; unknown nodes or entries.
        EnvmgrError: `mount-lost` where the prefix hangs here.
    """
    began = time.monotonic()
    way: Way = via or ("slurm" if ctx.site.transport.via == "slurm" else "ssh")
    account = choose_account(ctx.site, way, user)
    chosen_nodes = resolve_nodes(nodes, ctx.site, ctx.runner)
    look_at_prefix(ctx.site, ctx.runner)
    current, chosen = _chosen(ctx, names)
    folder = ctx.prefix.generation(current.number)
    specs = read_specs(ctx.prefix, current.number)
    tests, missing = run_on_nodes(
        chosen_nodes, [published_spec(specs[name]).spec for name in dict.fromkeys(chosen)],
        folder / "modules", folder / "lmodrc.lua",
        site=ctx.site, via=way, account=account, lmod=find_lmod(ctx.site.lmod.dir, ctx.environ, runner=ctx.runner),
        runner=ctx.runner, reporter=ctx.reporter, deadline=deadline or ctx.site.transport.deadline,
    )  # fmt: skip
    return NodeTestResult(
        current.number, tests, fold(chosen_nodes), len(chosen_nodes), way, account.user, missing,
        round(time.monotonic() - began, 3),
    )  # fmt: skip


def verify_entries(ctx: Context, names: Sequence[str]) -> VerifyResult:
    """Hash the installs of published entries again and compare them with their manifests."""
    current, chosen = _chosen(ctx, names)
    findings = []
    users: dict[str, list[str]] = {}  # path of an install -> the entries that use it: each is hashed once
    for name in chosen:
        for path in current.entries[name].paths:
            users.setdefault(path, []).append(name)
    for path, entries in users.items():
        findings += [
            Finding(
                "install",
                "error",
                ", ".join(entries),
                line if path == current.entries[entries[0]].path else f"{path}: {line}",
                hint="an install never changes: find who did it; "
                f"then remove {path}.manifest.json under {ctx.prefix.root}, and build the entry again",
            )
            for line in verify_install(ctx.prefix.install_at(path), ctx.reporter)
        ]
    return VerifyResult(tuple(chosen), tuple(findings))


def _chosen(ctx: Context, names: Sequence[str]) -> tuple[GenerationRecord, list[str]]:
    current = published_record(ctx)
    require_published(names, current)
    return current, list(names) or sorted(current.entries)
