"""The script for a node: the smoke tests of all entries as one part of a probe, run once the node's prefix has
answered.

The node's shell never touches the prefix. Each test is a session of its own, which a signal reaches whole, and a
watcher ends it when that shell is gone: the connection was cut, or the user pressed Ctrl-C.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envmgr.catalog.recipe import SmokeTest
from envmgr.modules.lmod import Lmod
from envmgr.modules.spec import ModuleSpec
from envmgr.smoke.here import GPU_FILES, MARKS, SLURM_VARIABLES, script_of, tests_of
from envmgr.system.run import clean_env
from envmgr.system.shelltext import assign, script_text

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
    clean = {k: v for k, v in clean_env().items() if k not in {"HOME", "USER", "LOGNAME", "TMPDIR"}}
    begin = assign(
        gpu_files=" ".join(GPU_FILES),
        killer=script_text(__file__, "kill.sh"),
        watcher=script_text(__file__, "watch.sh"),
        marks=" ".join(f"{mark}={lacking}" for mark, lacking in MARKS.items()),
        limit=math.ceil(seconds * _TICKS),
        most=max(1024, min(_TAIL, _ALL_TAILS // max(1, len(jobs)))),
        ticks_a_second=_TICKS,
    ) + script_text(__file__, "begin.sh")
    of_one = assign(
        clean=" ".join(f"{name}={value}" for name, value in clean.items()),
        path=clean["PATH"],
        slurm_variables=" ".join(SLURM_VARIABLES),
        slurm_given=" ".join(f"{name}={value}" for name, value in (given or {}).items()),
    )
    run = f"write_run <<'ENVMGR_RUN'\n{of_one}{script_text(__file__, 'run.sh')}ENVMGR_RUN\n"
    return "".join([begin, run, *map(_one, jobs), "echo done >&3\n"])


def _one(job: NodeTest) -> str:
    """Return the lines that run a test. Every line of the test begins with `|`, so that none ends a here-document."""
    text = "".join(f"|{line}\n" for line in job.script.replace("\0", "").split("\n"))
    needs = "+".join(job.test.needs) or "-"
    ticks = math.ceil(job.test.timeout * _TICKS)
    return f"take {job.key} <<'ENVMGR_TEST'\n{text}ENVMGR_TEST\nrun_test {job.key} {ticks} {needs}\n"
