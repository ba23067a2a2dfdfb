"""Smoke tests: an entry's own commands, run in a clean shell with its module loaded from one generation."""

from __future__ import annotations

import math
import os
import shutil
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from envmgr.catalog.recipe_parts import SmokeTest
from envmgr.errors import CommandError, EnvmgrError, Failed, signal_text
from envmgr.modules.lmod import Lmod
from envmgr.modules.spec import ModuleSpec
from envmgr.report import Reporter
from envmgr.smoke import SmokeOutcome, too_few
from envmgr.system.files import explain_os_error
from envmgr.system.run import Runner, clean_env
from envmgr.system.scratch import scratch_folder
from envmgr.system.shelltext import assign, script_text, words

# A file in the test's home says so, not a status: a test may fail with any status, and a failure must never look like
# a skip.
NO_LAUNCHER = "no-mpi-launcher"
NO_SLURM = "no-slurm"
NO_COMPILER = "no-compiler"
# Options that say where and on whose account a job runs; srun reads each as SLURM_<NAME>, too. Source: srun(1), "INPUT
# ENVIRONMENT VARIABLES".
_JOB_OPTIONS = frozenset({"account", "clusters", "constraint", "partition", "qos", "reservation", "wckey"})
# What a test that needs Slurm gets of its surroundings.
SLURM_VARIABLES = ("SLURM_CONF", "SLURM_JOB_ID")

_IMPORTS_LIMIT = 600.0  # seconds: from a cold cache of NFS, too

# Files of a GPU that can be used, without the root: the kernel driver is loaded and has made a device.
GPU_FILES = ("sys/module/nvidia/version", "dev/nvidia0")

SKIPS: Mapping[str, str] = {
    "gpu": "no NVIDIA GPU on this node",
    "mpi": "no MPI launcher on this node",
    "slurm": "no Slurm on this node",
    "compiler": "no C++ compiler (g++) on this node",
}
# A file that a test leaves in its home -> what it lacked.
MARKS: Mapping[str, str] = {NO_LAUNCHER: "mpi", NO_SLURM: "slurm", NO_COMPILER: "compiler"}


def run_smoke_tests(
    spec: ModuleSpec,
    modules: Path,
    lmodrc: Path,
    lmod: Lmod,
    runner: Runner,
    reporter: Reporter,
    *,
    slurm_options: Sequence[str],
) -> list[SmokeOutcome]:
    """Run every test of one entry here, but for those of several nodes. `slurm_options` are as for `script_of`."""
    tests = tests_of(spec)
    outcomes = []
    with reporter.stage(f"{spec.entry} test", total=len(tests), unit="tests") as stage:
        before = _stamps(Path(spec.root))
        for number, test in enumerate(tests):
            stage.update(number, detail=test.name)
            script = script_of(spec.entry, test, modules, lmodrc, lmod, slurm_options)
            outcomes.append(_run_one(spec.entry, test, script, runner))
            reporter.log(f"test {spec.entry} {test.name}: {outcomes[-1].status} {outcomes[-1].detail}")
        stage.update(len(tests))
    after = _stamps(Path(spec.root))
    # An empty root means a lost mount, which is reported elsewhere.
    if after and (changed := sorted(k for k, _ in before ^ after)):
        raise EnvmgrError(
            "test-changed-install",
            f"a smoke test of {spec.entry} wrote into its own install",
            context=list(dict.fromkeys(changed))[:10],
            hint=f"fix the test; remove {spec.root} and its manifest, then build {spec.entry} again",
        )
    return outcomes


def tests_of(spec: ModuleSpec) -> tuple[SmokeTest, ...]:
    """Return the tests of an entry. An entry without tests must still load, and its programs must start."""
    load = SmokeTest(name="load", run=assign(root=spec.home, name=spec.name) + script_text(__file__, "load.sh"))
    return (*(() if spec.tests else (load,)), *own_tests(spec))


def own_tests(spec: ModuleSpec) -> tuple[SmokeTest, ...]:
    """Return the recipe's tests as bash text, and the one that imports what was built from source, whatever else is
    tested.
    """
    built = [SmokeTest(name="built", imports=spec.imports, timeout=_IMPORTS_LIMIT)] if spec.imports else []
    return tuple(_as_text(test, spec.not_imported) for test in (*spec.tests, *built))


def _as_text(test: SmokeTest, left_out: Sequence[str]) -> SmokeTest:
    """Return the test with the command that imports its distributions, but for modules that are left out."""
    if not test.imports:
        return test
    program = Path(__file__).with_name("imports.py").read_text(encoding="utf-8")
    asked = words(*test.imports, *(f"-{module}" for module in left_out))
    run = f"python - {asked} <<'ENVMGR_IMPORTS'\n{program}ENVMGR_IMPORTS\n"
    return test.model_copy(update={"run": run, "imports": ()})


def script_of(
    entry: str, test: SmokeTest, modules: Path, lmodrc: Path, lmod: Lmod, slurm_options: Sequence[str]
) -> str:
    """Return the text for `bash --noprofile --norc`, in an empty home. A need that is missing leaves one of `MARKS`
    there.

    `slurm_options` are words for srun such as `--partition=gpu`, of which the last counts. Those that say where a job
    runs and on whose account reach the test's own `srun`, unless it starts a step of a job.
    """
    needs = ""
    if "mpi" in test.needs:
        needs += _call("launcher", NO_LAUNCHER)
    if "compiler" in test.needs:
        needs += _call("compiler", NO_COMPILER)
    if "slurm" in test.needs:
        minutes = math.ceil(test.timeout / 60)
        needs += _call("slurm", NO_SLURM, str(minutes), *_job_variables(slurm_options))
    return f"{lmod.module_shell_prologue(modules, lmodrc, entry)}\n{needs}{test.run}\n"


def _call(need: str, *arguments: str) -> str:
    """Return bash text that ends a test without what it needs, and leaves no function of envmgr."""
    function = f"envmgr_needs_{need}"
    return f"{script_text(__file__, f'{need}.sh')}{function} {words(*arguments)}\nunset -f {function}\n"


def _job_variables(slurm_options: Sequence[str]) -> list[str]:
    options = [option.removeprefix("--").partition("=") for option in slurm_options]
    return [f"SLURM_{name.upper()}={value}" for name, _, value in options if name in _JOB_OPTIONS]


def _slurm_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the Slurm job around this process, if any, and Slurm's commands if the caller's PATH has
    them.
    """
    found = {name: environ[name] for name in SLURM_VARIABLES if environ.get(name)}
    path = clean_env()["PATH"]
    # Slurm may lie outside the system's folders, and `clean_env` has only these.
    if (srun := shutil.which("srun", path=environ.get("PATH"))) and str(Path(srun).parent) not in path.split(":"):
        found["PATH"] = f"{path}:{Path(srun).parent}"
    return found


def _stamps(root: Path) -> set[tuple[str, tuple[int, ...]]]:
    """Return what a write would change of every path; empty where we may not write (no mode holds root back)."""
    if not os.access(root, os.W_OK):
        return set()
    return {
        (str(p.relative_to(root)), (s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns))
        for p in root.rglob("*")
        for s in (p.lstat(),)
    }


def gpu_here() -> bool:
    """Return whether a test that needs a GPU can run."""
    return all((Path("/") / file).exists() for file in GPU_FILES)


def raise_for_failures(outcomes: Iterable[SmokeOutcome]) -> None:
    """Raise EnvmgrError `smoke-test-failed`, which shows each failed test and the end of its output."""
    failed = [o for o in outcomes if o.status == "failed"]
    if not failed:
        return
    context = []
    for outcome in failed:
        context += [f"{outcome.entry} `{outcome.test}`:", *(f"  {line}" for line in _shortened(outcome.detail))]
    entries = sorted({o.entry for o in failed})
    error = EnvmgrError(
        "smoke-test-failed",
        f"{len(failed)} smoke test{'s' if len(failed) > 1 else ''} of {', '.join(entries)} failed",
        context=context,
        hint=f"nothing was published; fix the recipe or its tests, then `envmgr build {' '.join(entries)}` "
        "(installs are kept)",
    )
    error.failed = tuple(Failed(o.entry, error.reference, f"`{o.test}` failed") for o in failed)
    raise error


def _shortened(text: str) -> list[str]:
    """Return the beginning and the end of a long output, without empty lines: programs report the cause in either."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines if len(lines) <= 20 else [*lines[:7], f"({len(lines) - 19} more lines)", *lines[-12:]]


def _run_one(entry: str, test: SmokeTest, script: str, runner: Runner) -> SmokeOutcome:
    if test.nodes > 1:
        return SmokeOutcome(entry, test.name, "not-run", too_few(entry, test.nodes), 0)
    if "gpu" in test.needs and not gpu_here():
        return SmokeOutcome(entry, test.name, "skipped", SKIPS["gpu"], 0)
    with scratch_folder("test") as folder, explain_os_error(folder):
        home, file = str(folder), folder / "test.sh"
        file.write_text(script, encoding="utf-8")
        # Start-up files of the user or the site would decide how a test ends.
        argv: list[str | Path] = ["bash", "--noprofile", "--norc", file]
        env = clean_env(HOME=home, TMPDIR=home) | (_slurm_environment(os.environ) if "slurm" in test.needs else {})
        start = time.monotonic()
        try:
            done = runner.run(argv, env=env, cwd=folder, timeout=test.timeout, check=False)
        except CommandError as error:  # out of time
            output, end = error.stdout + error.stderr, end_of_test(test, None)
        else:
            # A mark counts only for a need that the recipe declares: otherwise a failure could look like a skip.
            for mark, lacking in MARKS.items():
                if lacking in test.needs and (folder / mark).exists():
                    return SmokeOutcome(entry, test.name, "skipped", SKIPS[lacking], 0)
            output, end = done.stdout + done.stderr, end_of_test(test, done.returncode)
    status: Literal["passed", "failed"] = "failed" if end else "passed"
    return SmokeOutcome(entry, test.name, status, detail_of(output, end), time.monotonic() - start)


def detail_of(output: str, end: str) -> str:
    """Return a failed test's output and its end; empty for a passed test, whose `end` is empty."""
    return f"{output.strip()}\n{end}".strip() if end else ""


def end_of_test(test: SmokeTest, status: int | None) -> str:
    """Return how a test ended, empty when well. `status` is None if its time was over. Bash says 128 + n of a command
    that signal n ended.
    """
    if status is None:
        return f"no end after {test.timeout:g} s"
    number = -status if status < 0 else status - 128
    if 0 < number < signal.NSIG and number in set(signal.Signals):
        return f"ended by {signal_text(number)}"
    return f"exit status {status}" if status else ""
