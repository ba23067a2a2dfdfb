"""Why jobs ended without an answer: what slurmd wrote on those nodes, asked over ssh once jobs are over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envmgr.nodes import Reply
from envmgr.probe.model import Fleet, ProbePart
from envmgr.system.shelltext import assign, script_text

_MOST = 64  # nodes that are asked: of more, the others will have the same cause


def nodes_to_ask(ways: Mapping[str, Fleet]) -> tuple[str, ...]:
    """Nodes that answered over ssh, and on which a job began and did not answer."""
    if "ssh" not in ways:
        return ()
    sound = frozenset(ways["ssh"].sound.nodes)
    lost: Sequence[Reply] = [reply for way, fleet in ways.items() if way != "ssh" for reply in fleet.missing]
    nodes = dict.fromkeys(reply.node for reply in lost if reply.status == "silent" and reply.node in sound)
    return tuple(nodes)[:_MOST]


def log_part(seconds: float) -> ProbePart:
    """Asks for what was written in the last `seconds`."""
    return ProbePart("slurmd_log", {"node": assign(ago=int(seconds) + 2) + script_text(__file__, "sh")})


def read_logs(fleet: Fleet) -> dict[str, str]:
    """node -> the first error of slurmd's; without nodes that told none."""
    return {node: line for line, nodes in fleet.by_value("slurmd_log.error").items() if line for node in nodes}
