"""Smoke tests: an entry's own commands, run in a clean shell with its module loaded from one generation."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envmgr.errors import EnvmgrError
from envmgr.lmod import Lmod
from envmgr.modulespec import ModuleSpec
from envmgr.recipe import SmokeTest
from envmgr.report import Reporter
from envmgr.run import Runner, clean_env


@dataclass(frozen=True, slots=True)
class SmokeOutcome:
    """One test's end. `detail` is the reason of a skip, or the end of a failed test's output; `seconds` is wall-clock."""

    entry: str
    test: str
    status: Literal["passed", "failed", "skipped"]
    detail: str
    seconds: float


def run_smoke_tests(
    spec: ModuleSpec, modules: Path, lmodrc: Path, lmod: Lmod, runner: Runner, reporter: Reporter
) -> list[SmokeOutcome]:
    """Every test of one entry; an entry without tests still has to load."""
    tests = spec.tests or (SmokeTest(name="load", run=":"),)
    outcomes = []
    with reporter.stage(f"{spec.entry} test", total=len(tests), unit="tests") as stage:
        for number, test in enumerate(tests):
            stage.update(number, detail=test.name)
            outcomes.append(_run_one(spec, test, modules, lmodrc, lmod, runner))
            reporter.log(f"test {spec.entry} {test.name}: {outcomes[-1].status} {outcomes[-1].detail}")
        stage.update(len(tests))
    return outcomes


def gpu_here(root: Path = Path("/")) -> bool:
    """Whether a test that needs a GPU can run: the kernel driver is loaded and has made a device."""
    return (root / "sys/module/nvidia/version").exists() and (root / "dev/nvidia0").exists()


def raise_for_failures(outcomes: Iterable[SmokeOutcome]) -> None:
    """Raises EnvmgrError `smoke-test-failed` that shows each failed test and the end of its output."""
    failed = [o for o in outcomes if o.status == "failed"]
    if not failed:
        return
    context = []
    for outcome in failed:
        context += [f"{outcome.entry} `{outcome.test}`:", *(f"  {line}" for line in outcome.detail.splitlines()[-12:])]
    entries = sorted({o.entry for o in failed})
    raise EnvmgrError(
        "smoke-test-failed",
        f"{len(failed)} smoke test{'s' if len(failed) > 1 else ''} of {', '.join(entries)} failed",
        context=context,
        hint="nothing was published; mend the recipe, or its tests, and build again (the install is kept and reused)",
    )


def _run_one(
    spec: ModuleSpec, test: SmokeTest, modules: Path, lmodrc: Path, lmod: Lmod, runner: Runner
) -> SmokeOutcome:
    if "gpu" in test.needs and not gpu_here():
        return SmokeOutcome(spec.entry, test.name, "skipped", "no NVIDIA GPU on this node", 0)
    with tempfile.TemporaryDirectory(prefix="envmgr-test-") as home:
        script = lmod.module_shell_prologue(modules, lmodrc, spec.entry) + "\n" + test.run + "\n"
        (Path(home) / "test.sh").write_text(script, encoding="utf-8")
        env = clean_env(HOME=home, TMPDIR=home)
        # `timeout` also ends a test whose envmgr was killed.
        argv: list[str | Path] = [
            "timeout",
            "--kill-after=5",
            f"{test.timeout:g}",
            "bash",
            "--noprofile",
            "--norc",
            Path(home) / "test.sh",
        ]
        done = runner.run(argv, env=env, cwd=Path(home), check=False)
    output = (done.stdout + done.stderr).strip()
    if done.returncode in (124, 137):
        output += f"\nno end after {test.timeout:g} s"
    status: Literal["passed", "failed"] = "passed" if done.returncode == 0 else "failed"
    detail = "" if status == "passed" else f"{output}\nexit status {done.returncode}".strip()
    return SmokeOutcome(spec.entry, test.name, status, detail, done.seconds)
