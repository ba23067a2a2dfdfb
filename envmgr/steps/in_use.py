"""The things that are in use: asks this host's processes, the site's nodes, and Slurm's jobs for `gc`. It changes
nothing.

What cannot be asked counts as in use: generations and installs by the kernel's files, and by the memory of shells. Only
root sees the processes of all users.
"""

from __future__ import annotations

import math
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.nodes.envelope import Reply
from envmgr.nodes.fanout import ask_nodes
from envmgr.nodes.jobs import queued_jobs
from envmgr.nodes.sets import NodeSets, fold
from envmgr.nodes.slurm import slurm_here, slurm_names, states_or_reason
from envmgr.probe.model import Facts, ProbePart, ProbePlan, number_in
from envmgr.probe.shell import join_probes, looked_key, read_answer
from envmgr.publish.gc_keeps import InUse
from envmgr.steps import Context
from envmgr.system.run import run_detached
from envmgr.system.shelltext import assign, script_text
from envmgr.system.usernames import user_name

_PART = "use"
_ONCE = 10  # seconds for some processes at a time: reading takes milliseconds, where it does not hang
_AROUND = 12  # seconds that the probe needs in addition
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Uses:
    """The paths below the prefix that processes of one node use: path -> user of it.

    `since`: for how many seconds a shell has run whose memory cannot be read, and which process that is. `late` are the
    same of each user whose processes could not be looked at in time. `closed` are
    processes that cannot be looked at; `unknown` is why more was not looked at. `uid` is the user that looked, -1 where
    that is not known.
    """

    named: dict[str, str]
    since: tuple[float, str] | None = None
    closed: str = ""
    unknown: str = ""
    uid: int = -1
    late: tuple[tuple[float, str], ...] = ()


def uses_script(prefix: str, seconds: float, paths: Sequence[str]) -> str:
    """Return the script, which asks who uses `paths` below the prefix, and ends after about `seconds`."""
    work = max(2, math.floor(seconds) - _AROUND)
    once = max(1, min(work // 8, _ONCE))  # some that hang leave time for others
    text = assign(use_seconds=work, use_once=once, use_paths="\n".join(paths)) + script_text(__file__, "uses.node.sh")
    plan = ProbePlan(prefix=prefix, user="", build_user="", seconds=work + _ONCE)
    return join_probes([ProbePart(_PART, {"node": text})], plan, stages=("node",))


def read_uses(text: str) -> Uses:
    """Read the answer of `uses_script` on a node."""
    facts, _, _ = read_answer(text)
    uid = -1 if (said := number_in(facts, "use.uid")) is None else said
    named = {}
    for line in facts.get("use.named", "").splitlines():
        path, count, who = line.split(" ", 2)
        named[path] = _with_others(_process(who), int(count))
    for path in facts.get("use.staged", "").splitlines():
        named.setdefault(path, "an image that is staged")
    if kept := number_in(facts, "use.kept"):
        named.setdefault(f"generations/{kept:04d}", "the check of signatures, which may give it to new shells,")
    since = None
    for line in facts.get("use.since", "").splitlines()[:1]:
        age, who = line.split(" ", 1)
        since = (float(age), _with_others(_process(who), number_in(facts, "use.since.count") or 1))
    late = []
    for line in facts.get("use.late", "").splitlines():
        age, more, who = line.split(" ", 2)
        late.append((float(age), _with_others(_process(who), int(more))))
    return Uses(named, since, _closed(facts), "; ".join(_unknown(facts)), uid, tuple(late))


def _unknown(facts: Facts) -> Iterator[str]:
    if looked_key(_PART, "node") not in facts:
        yield f"the probe did not end: {facts.get('probe') or facts.get('node.end') or facts.get('end') or 'no reason'}"
        return
    if left := number_in(facts, "use.left"):
        yield f"{left} processes were not looked at in time"


def _closed(facts: Facts) -> str:
    count = number_in(facts, "use.closed.count") or 0
    told = ", ".join(map(_process, facts.get("use.closed", "").splitlines()[:_SHOWN]))
    words = "process cannot" if count == 1 else "processes cannot"
    return f"{count} {words} be looked at: {told}{', …' if count > _SHOWN else ''}" if count else ""


def _process(line: str) -> str:
    pid, uid, name = line.split(" ", 2)
    user = user_name(int(uid)) if uid.isdecimal() else "?"
    return f"{name[:30]} ({pid}) of {user}"


def _with_others(who: str, count: int) -> str:
    return who if count <= 1 else f"{who} and {count - 1} more"


_HERE = 120.0  # seconds for the processes of this host
_SKEW = 300.0  # seconds that clocks may differ


@dataclass(slots=True)
class UsesFound:
    """The uses that were found, and where they were asked for: `this host`, a node set, `Slurm`.

    `users` says of whom a process was not looked at in time. It may use what was current up to `keep_days` before it
    began, as a job.
    """

    keep_days: float = 0.0
    named: dict[str, list[str]] = field(default_factory=dict)
    since: list[tuple[float, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    silent: dict[str, list[str]] = field(default_factory=dict)  # reason -> nodes
    of: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)

    def found(self) -> InUse:
        silent = [f"{fold(nodes)}: {reason}" for reason, nodes in self.silent.items()]
        return InUse(self.named, tuple(sorted(self.since)), (*self.unknown, *silent))

    def take(self, uses: Uses, where: str, when: float) -> None:
        for path, who in uses.named.items():
            self.named.setdefault(path, []).append(f"{who} on {where}")
        if uses.since is not None:
            age, who = uses.since
            self.since.append((when - age - _SKEW, f"{who} on {where}, whose memory cannot be read"))
        for age, who in uses.late:
            self.users.append(f"{who} on {where} could not be looked at in time")
            self.since.append((when - age - self.keep_days * 86400 - _SKEW, f"{who} on {where}, not looked at in time"))


def names_nodes(ctx: Context) -> bool:
    """Return whether the site says which nodes it has."""
    return bool(ctx.site.groups or ctx.site.login_nodes)


def ask_in_use(ctx: Context, keep_days: float, paths: Sequence[str]) -> UsesFound:
    """Ask everybody for uses of `paths`.

    A session that submits a job, or has submitted it, holds no generation that was left more than `keep_days` days
    before that: see docs/prefix.md.
    """
    asked = UsesFound(keep_days)
    root = os.geteuid() == 0
    if not root and names_nodes(ctx):
        asked.unknown.append(f"{_me()} cannot see other users' processes on nodes: run it as root")
        return asked
    # Slurm comes first: where it starts processes, a look without root's rights shows too little.
    _ask_slurm(ctx, asked)
    if not root and "Slurm" in asked.of:
        asked.unknown.append(f"{_me()} cannot see other users' processes, and Slurm starts some: run it as root")
        return asked
    _ask_here(ctx, asked, paths)
    if names_nodes(ctx):
        _ask_nodes(ctx, asked, paths)
    return asked


def _ask_here(ctx: Context, asked: UsesFound, paths: Sequence[str]) -> None:
    prefix = ctx.prefix.root
    with ctx.reporter.stage("processes of this host"):
        # Taken before the look: the age of a shell counts from here, and an earlier time keeps more.
        began = time.time()
        script = uses_script(str(prefix), _HERE, paths)
        try:
            # Detached, because a look at a process on a hung mount may never return.
            done = run_detached(["/bin/sh", "-s"], stdin=script, seconds=_HERE, check=ctx.runner.raise_if_cancelled)
        except OSError as error:  # a full disk, no more processes
            asked.unknown.append(f"this host: its processes could not be looked at: {error.strerror}")
            return
    uses = read_uses(done.output)
    asked.of.append("this host")
    asked.take(uses, "this host", began)
    if uses.unknown:
        asked.unknown.append(f"this host: {uses.unknown}")
    if uses.closed and os.geteuid() == 0:
        asked.unknown.append(f"this host: {uses.closed}")
    elif uses.closed and (way := _way_for_others(prefix)) is None:
        asked.unknown.append(
            f"{_me()} cannot see the processes of other users, who can reach {prefix}: run it as root ({uses.closed})"
        )
    elif uses.closed:
        ctx.reporter.log(f"not looked at, and cannot pass {way}: {uses.closed}")


def _way_for_others(prefix: Path) -> Path | None:
    """Return a folder on the way to the prefix that only its owner and root can pass; None where other users come
    through.
    """
    for folder in (prefix.resolve(), *prefix.resolve().parents):
        status = folder.stat()
        if status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o011:
            return folder
    return None


def _ask_nodes(ctx: Context, asked: UsesFound, paths: Sequence[str]) -> None:
    try:
        sets = NodeSets(ctx.site, ctx.runner)
        nodes = dict.fromkeys(sets.resolve(None) if ctx.site.groups else ())
        nodes |= dict.fromkeys(sets.resolve(ctx.site.login_nodes) if ctx.site.login_nodes else ())
    except EnvmgrError as error:
        asked.unknown.append(f"it is not known which nodes there are: {error.message}")
        return
    off = _switched_off(ctx, list(nodes))
    todo = [node for node in nodes if node not in off]
    replies: dict[str, Reply] = {}
    with ctx.reporter.stage("processes of nodes", total=len(todo), unit="nodes") as stage:

        def take(reply: Reply) -> None:
            replies[reply.node] = reply
            stage.update(len(replies), detail=reply.node)

        script = uses_script(str(ctx.prefix.root), ctx.site.transport.node_timeout, paths)
        ask_nodes(todo, script, site=ctx.site, runner=ctx.runner, on_reply=take, via=ctx.way())
    for node in todo:  # in the order of the nodes, not of their answers
        _take_reply(asked, replies[node])
    asked.of.append(fold(nodes))


def _take_reply(asked: UsesFound, reply: Reply) -> None:
    if reply.status != "answered":
        asked.silent.setdefault(f"{reply.status}: {reply.reason}", []).append(reply.node)
        return
    uses = read_uses(reply.text)
    asked.take(uses, reply.node, reply.began)
    whose = "" if uses.uid == 0 else f"{_name(uses.uid)} there cannot see other users' processes"
    for why in (uses.unknown, uses.closed if not whose else "", whose):
        if why:
            asked.silent.setdefault(why, []).append(reply.node)


def _switched_off(ctx: Context, nodes: Sequence[str]) -> frozenset[str]:
    """Return the nodes that Slurm has powered down: no process runs there. Source: sinfo(1), NODE STATE CODES, `~`."""
    if not slurm_here():
        return frozenset()
    states, _ = states_or_reason(ctx.runner, ctx.site.transport.deadline)
    names = slurm_names(states, nodes)
    return frozenset(node for node, name in names.items() if states[name][0].endswith("~"))


def _ask_slurm(ctx: Context, asked: UsesFound) -> None:
    if shutil.which("squeue") is None:
        if ctx.site.transport.via == "slurm":
            asked.unknown.append("Slurm's jobs are not known: there is no squeue here")
        return
    try:
        with ctx.reporter.stage("jobs of Slurm"):
            jobs = queued_jobs(ctx.site, ctx.runner)
    except EnvmgrError as error:
        asked.unknown.append(f"Slurm's jobs are not known: {error.message}")
        return
    if jobs is None:
        return
    asked.of.append("Slurm")
    for job in jobs:
        if job.submitted is None:
            asked.unknown.append(f"{job}: Slurm does not tell when it was submitted")
        else:
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(job.submitted))
            asked.since.append((job.submitted - asked.keep_days * 86400 - _SKEW, f"{job}, submitted {since}"))


def _me() -> str:
    return _name(os.geteuid())


def _name(uid: int) -> str:
    return "the user" if uid < 0 else user_name(uid)
