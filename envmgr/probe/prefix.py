"""How a node has the prefix: its mount, by facts that no mount can hang, and which generation it sees there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from envmgr.probe.model import Facts, Fleet, ProbePlan, ProbeStage

_NODE = r"""
awk -v prefix="${ENVMGR_REAL:-$prefix}" '
  $5 == "/" || index(prefix "/", $5 "/") == 1 {
    if (length($5) >= length(best)) { best = $5; line = $0 }
  }
  END { print line }
' /proc/self/mountinfo >"$0.mount"
read -r line <"$0.mount"
set -f
set -- $line
put mount.root "$4"
put mount.point "$5"
put mount.options "$(printf '%s' "$6" | tr , '\n' | grep -v -E '^(no|rel|strict)atime$' | LC_ALL=C sort | paste -sd, -)"
while [ "$1" != - ]; do shift; done
put mount.type "$2"
put mount.source "$3"
put mount.super "$(printf '%s' "$4" | tr , '\n' | grep -v -E '^(clientaddr|addr|mountaddr|port|mountport|fd|context|seclabel|lowerdir|upperdir|workdir)(=|$)' | LC_ALL=C sort | paste -sd, -)"
set +f
"""

# Seconds after which a mount shows changes of others. Source: nfs(5) acdirmax; sshfs(1) dcache_timeout; mount.cifs(8) actimeo.
_DEFAULTS = {"nfs": 60.0, "nfs4": 60.0, "fuse.sshfs": 20.0, "cifs": 1.0, "smb3": 1.0}
_OTHER_NETWORK = 5.0


@dataclass(frozen=True, slots=True)
class MountFacts:
    """The part of every probe that tells `mount.*`: from /proc/self/mountinfo, without touching the prefix."""

    __name__ = "mount"

    def probe(self, plan: ProbePlan) -> Mapping[ProbeStage, str]:  # noqa: ARG002 - the same for every plan
        return {"node": _NODE}


def attribute_cache(facts: Facts, override: float | None) -> float:
    """Seconds until this node must see a publish."""
    if override is not None:
        return override
    options = facts.get("mount.super", "").split(",")
    for name in ("actimeo", "acdirmax"):
        for option in options:
            if match := re.fullmatch(rf"{name}=([0-9.]+)", option):
                return float(match[1])
    if "noac" in options:
        return 0.0
    kind, source = facts.get("mount.type", ""), facts.get("mount.source", "")
    return _DEFAULTS.get(kind, _OTHER_NETWORK if ":" in source else 0.0)


def is_stale(facts: Facts, number: int) -> bool:
    """Whether a node that answers sees another generation than the published one."""
    return facts.get("gate") == "ok" and facts.get("current") != f"generations/{number:04d}"


def newer_generations(fleet: Fleet, number: int) -> dict[int, tuple[str, ...]]:
    """Generations after `number` that nodes name, with these nodes."""
    named = {generation_number(target): nodes for target, nodes in fleet.sound.by_value("current").items()}
    return {n: nodes for n, nodes in named.items() if n is not None and n > number}


def generation_number(target: str) -> int | None:
    """The number in what `current` names; None for anything else."""
    match = re.fullmatch(r"generations/([0-9]{4,})", target)
    return int(match[1]) if match else None
