"""Generations and installs in use by the processes of a node: by the kernel's files, and by the memory of shells."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from envmgr.probe.model import Facts, ProbePart, ProbePlan, number_in
from envmgr.probe.shell import join_probes, looked_key, read_answer
from envmgr.system.shelltext import assign, script_text
from envmgr.system.usernames import user_name

_PART = "use"
_ONCE = 10  # seconds for some processes at a time: reading takes milliseconds, where it does not hang
_MOST = 20_000  # paths that a node reports
_AROUND = 12  # seconds that the probe needs in addition
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Uses:
    """The paths below the prefix that processes of one node use: path -> user of it.

    `since`: for how many seconds a shell has run whose memory cannot be read, and which process that is. `closed` are
    processes that cannot be looked at; `unknown` is why more was not looked at. `uid` is the user that looked, -1 where
    that is not known.
    """

    named: dict[str, str]
    since: tuple[float, str] | None = None
    closed: str = ""
    unknown: str = ""
    uid: int = -1


def uses_script(prefix: str, seconds: float) -> str:
    """Return the script, which ends after about `seconds`."""
    work = max(2, math.floor(seconds) - _AROUND)
    text = assign(use_seconds=work, use_once=min(work, _ONCE), use_most=_MOST) + script_text(__file__, "node.sh")
    plan = ProbePlan(prefix=prefix, user="", build_user="", seconds=work + _ONCE)
    return join_probes([ProbePart(_PART, {"node": text})], plan, stages=("node",))


def read_uses(text: str) -> Uses:
    """Read the answer of `uses_script` on a node."""
    facts, _, _ = read_answer(text)
    uid = -1 if (said := number_in(facts, "use.uid")) is None else said
    named = {}
    for line in facts.get("use.named", "").splitlines():
        path, count, who = line.split(" ", 2)
        named[_whole(path)] = _with_others(_process(who), int(count))
    if kept := number_in(facts, "use.kept"):
        named.setdefault(f"generations/{kept:04d}", "the check of signatures, which may give it to new shells,")
    since = None
    for line in facts.get("use.since", "").splitlines()[:1]:
        age, who = line.split(" ", 1)
        since = (float(age), _with_others(_process(who), number_in(facts, "use.since.count") or 1))
    return Uses(named, since, _closed(facts), "; ".join(_unknown(facts)), uid)


def _unknown(facts: Facts) -> Iterator[str]:
    if looked_key(_PART, "node") not in facts:
        yield f"the probe did not end: {facts.get('probe') or facts.get('node.end') or facts.get('end') or 'no reason'}"
        return
    if late := number_in(facts, "use.late"):
        yield f"{late} processes were not looked at in time"
    if (count := number_in(facts, "use.named.count") or 0) > _MOST:
        yield f"its processes name {count} paths, more than are told"


def _closed(facts: Facts) -> str:
    count = number_in(facts, "use.closed.count") or 0
    told = ", ".join(map(_process, facts.get("use.closed", "").splitlines()[:_SHOWN]))
    words = "process cannot" if count == 1 else "processes cannot"
    return f"{count} {words} be looked at: {told}{', …' if count > _SHOWN else ''}" if count else ""


def _whole(path: str) -> str:
    """Return the path with the install's name in place of its staging folder's, as an install may be built or
    exchanged.
    """
    return re.sub(r"/\.staging-(?=[^/]+$)", "/", path)


def _process(line: str) -> str:
    pid, uid, name = line.split(" ", 2)
    user = user_name(int(uid)) if uid.isdecimal() else "?"
    return f"{name[:30]} ({pid}) of {user}"


def _with_others(who: str, count: int) -> str:
    return who if count <= 1 else f"{who} and {count - 1} more"
