"""Every node's clock agrees with this host's, within `audit.max_skew` seconds.

The node reports its time while this host waits for the answer. A clock is off by at least as much as its time lies
outside that interval. A slow connection makes the interval longer, and never causes a false alarm. Clocks that are
apart break munge (Slurm), Kerberos, make, and the cache times of network file systems.
"""

from __future__ import annotations

import re

from envmgr.audit.model import Check, Evidence, Rows, scripts
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import Facts, grouped


def judge(evidence: Evidence) -> Rows:
    limit, fleet = evidence.site.audit.max_skew, evidence.fleet
    times = {node: _times(fleet.own.get(node, {})) for node in fleet.nodes if node in fleet.replies}
    skews = {node: skew(of_node, fleet.replies[node]) for node, of_node in times.items() if of_node}
    off = ((_said(least, most), node) for node, (least, most) in skews.items() if max(least, -most) > limit)
    for said, nodes in grouped(off).items():
        yield evidence.say("off", nodes, said=said, limit=f"{limit:g}")


def skew(times: list[float], reply: Reply) -> tuple[float, float]:
    """Return the least and the most seconds by which the node's clock is ahead.

    `times` are its readings while it answered. The node made all of them between `began` and `ended` of this host. The
    last reading gives the least value, and the first reading gives the most.
    """
    return max(times) - reply.ended, min(times) - reply.began


def _said(least: float, most: float) -> str:
    way = "ahead" if least > 0 else "behind"
    ends = sorted({round(abs(least)), round(abs(most))})
    return f"{' to '.join(map(str, ends))} s {way}"


def _times(own: Facts) -> list[float]:
    said = (own.get(key, "") for key in ("began", "clock.later"))
    return [float(text) for text in said if re.fullmatch(r"\d+(\.\d*)?", text, re.ASCII)]


CHECK = Check(judge=judge, probe=scripts(__file__, "prefix"))
