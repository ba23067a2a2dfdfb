"""The prefix on a node, or on this host: its mount, by facts that no mount can hang, and the generation seen there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from envmgr.probe.model import Facts, Fleet, ProbePart, ProbePlan
from envmgr.probe.shell import GATE_SECONDS, join_probes, read_answer
from envmgr.system.run import Runner, run_detached
from envmgr.system.shelltext import script_text

# Seconds after which a mount shows other clients' changes.
# Source: nfs(5) acdirmax; sshfs(1) dcache_timeout; mount.cifs(8) actimeo.
_DEFAULTS = {"nfs": 60.0, "nfs4": 60.0, "fuse.sshfs": 20.0, "cifs": 1.0, "smb3": 1.0}
_OTHER_NETWORK = 5.0


def mount_facts() -> ProbePart:
    """Return the part of every probe that reports `mount.*`: from /proc/self/mountinfo, without touching the prefix."""
    return ProbePart("mount", {"node": script_text(__file__, "node.sh")})


def attribute_cache(facts: Facts, override: float | None) -> float:
    """Return the seconds until this node must see a publish."""
    if override is not None:
        return override
    options = dict(each.partition("=")[::2] for each in facts.get("mount.super", "").split(","))
    # actimeo sets all four times of the cache, acdirmax only one. Source: nfs(5).
    seconds = options.get("actimeo") or options.get("acdirmax", "0" if "noac" in options else "")
    if seconds.isdecimal():
        return float(seconds)
    kind, source = facts.get("mount.type", ""), facts.get("mount.source", "")
    # Network file systems have a source of the form HOST:PATH.
    return _DEFAULTS.get(kind, _OTHER_NETWORK if ":" in source else 0.0)


def is_stale(facts: Facts, number: int) -> bool:
    """Return whether a node that answers sees another generation than the published one."""
    return facts.get("gate") == "ok" and facts.get("current") != f"generations/{number:04d}"


def newer_generations(fleet: Fleet, number: int) -> dict[int, tuple[str, ...]]:
    """Return generations after `number` that nodes name, with these nodes."""
    named = {generation_number(target): nodes for target, nodes in fleet.sound.by_value("current").items()}
    return {n: nodes for n, nodes in named.items() if n is not None and n > number}


def generation_number(target: str) -> int | None:
    """Return the number in what `current` names; None for anything else."""
    match = re.fullmatch(r"generations/([0-9]{4,})", target)
    return int(match[1]) if match else None


def look_here(plan: ProbePlan, runner: Runner, seconds: float, parts: Sequence[ProbePart] = ()) -> Facts:
    """Look at the prefix on this host, by the probe of nodes, within `seconds`. `gate` is `ok` where it answers.

    Without `parts` it is a short look, only at the mount.
    """
    script = join_probes(parts or [mount_facts()], replace(plan, contexts=()), stages=("node",))
    limit, check = min(GATE_SECONDS + 10, seconds), runner.raise_if_cancelled
    done = run_detached(["/bin/sh", "-s"], stdin=script, seconds=limit, check=check)
    # A look that hangs ends before it has reported a gate.
    lost = {} if done.returncode is None else {"probe": "/bin/sh does not do what it is given"}
    facts = read_answer(done.output)[0]
    return facts if "gate" in facts else {"gate": "hung", **lost, **facts}
