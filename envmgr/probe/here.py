"""The probe on this host, by the same script as on nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envmgr.probe.model import Facts, ProbePart, ProbePlan
from envmgr.probe.prefix import mount_facts
from envmgr.probe.shell import GATE_SECONDS, join_probes, read_answer
from envmgr.system.detached import run_detached
from envmgr.system.run import Runner


def look_here(plan: ProbePlan, runner: Runner, seconds: float, parts: Sequence[ProbePart] = ()) -> Facts:
    """How this host has the prefix, by the same probe as on nodes, within `seconds`. `gate` is `ok` where it answers.

    Without `parts` it is a short look, at the mount alone.
    """
    script = join_probes(parts or [mount_facts()], replace(plan, contexts=()), stages=("node",))
    done = run_detached(
        ["/bin/sh", "-s"], stdin=script, seconds=min(GATE_SECONDS + 10, seconds), check=runner.raise_if_cancelled
    )
    facts, _, _ = read_answer(done.output)
    return {"gate": "hung", **facts}
