"""Every node's clock agrees with this host's, within `audit.max_skew` seconds.

The node reports its time while this host waits for the answer. A clock is off by at least as much as its time lies
outside that interval. A slow connection makes the interval longer, and never causes a false alarm. Clocks that are
apart break munge (Slurm), Kerberos, make, and the cache times of network file systems.
"""

from __future__ import annotations

from envmgr.audit.model import Check, Evidence, Rows, scripts
from envmgr.nodes.envelope import Reply


def judge(evidence: Evidence) -> Rows:
    limit = evidence.site.audit.max_skew
    fleet = evidence.fleet
    off: dict[str, list[str]] = {}
    for node in fleet.nodes:
        own = fleet.own.get(node, {})
        times = [seconds for key in ("began", "clock.later") if (seconds := _seconds(own.get(key, ""))) is not None]
        if times and node in fleet.replies:
            least, most = skew(times, fleet.replies[node])
            if max(least, -most) > limit:
                off.setdefault(_said(least, most), []).append(node)
    for said, nodes in off.items():
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


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


CHECK = Check(judge=judge, probe=scripts(__file__, "prefix"))
