"""Reading of the nodes' logs, for `usage` and `gc --unused-for`: each node puts a mark into its syslog, and what lies between the
mark of the last reading and this one is counted.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from envmgr.builds.prepare import can_write
from envmgr.commands import Context, published_record
from envmgr.errors import InputError
from envmgr.nodes.envelope import Reply
from envmgr.nodes.fanout import ask_nodes
from envmgr.nodes.sets import NodeSets, fold
from envmgr.publish.flips import flips
from envmgr.publish.records import current_number
from envmgr.store.usage import DAYS, LogAnswer, Usage, known_since, merged, read_logs_answer, read_usage, save_usage
from envmgr.system.run import run_detached
from envmgr.system.shelltext import assign, script_text
from envmgr.system.untrusted_files import GENERATION, read_bytes

_HERE = "here"
_HOOK = b"usage_end("  # in each modulefile that says that it is loaded
_WAIT = 25  # fifths of a second that a mark may take from the syslog to the log
_MOST = 50_000  # rows of loads of one host


@dataclass(frozen=True, slots=True)
class Unread:
    """Nodes (folded) of which this reading counted nothing, and the reason."""

    nodes: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of a reading: all that is known after it, and the nodes of which it counted nothing, with reasons."""

    usage: Usage
    nodes: tuple[str, ...]
    faults: Mapping[str, str]
    off: str
    damaged: int = 0
    others: int = 0

    @property
    def known(self) -> datetime | None:
        return known_since(self.usage, self.nodes)

    @property
    def unread(self) -> tuple[Unread, ...]:
        reasons: dict[str, list[str]] = {}
        for node, reason in self.faults.items():
            reasons.setdefault(reason, []).append(node)
        return tuple(Unread(fold(nodes), reason) for reason, nodes in reasons.items())


def read_logs(ctx: Context, now: datetime) -> Reading:
    """Ask the nodes, or the host that has their logs. It writes nothing but a mark into each syslog."""
    before, off = read_usage(ctx.prefix), why_off(ctx)
    nodes = nodes_with_users(ctx)
    if not ctx.site.usage.on:
        return Reading(before, nodes, {}, off)
    asking = _Asking(ctx, before, secrets.token_hex(8), now)
    answers, faults = asking.central(nodes) if ctx.site.usage.host else asking.each(nodes)
    read = min((log.read for log in before.nodes.values()), default=now)
    # A flip to a generation whose modules say nothing leaves a gap.
    later = {row["to"] for row in flips(ctx.prefix) if str(row.get("time")) > read.isoformat()}
    gapless = not off and all(_says(ctx, number) for number in later)
    entries = published_record(ctx).entries
    usage, lacking = merged(before, answers, entries, mark=asking.mark, now=now, gapless=gapless)
    counts = {
        id(each.counts): each.counts for each in answers.values()
    }.values()  # one answer may be that of many nodes
    damaged, others = (sum(each[kind] for each in counts) for kind in ("damaged", "others"))
    return Reading(usage, nodes, {**faults, **lacking}, off, damaged, others)


def save_reading(ctx: Context, reading: Reading, settle: Callable[[], None] = lambda: None) -> None:
    """Write what was read. Two readings at once are no harm: each is whole from the mark at which both began."""
    if ctx.site.usage.on:
        settle()
        can_write(ctx.site)
        save_usage(ctx.prefix, reading.usage, private=ctx.site.usage.uids)


def why_off(ctx: Context) -> str:
    if not ctx.site.usage.on:
        return "site.yaml has no `usage: true`"
    number = current_number(ctx.prefix)
    if number is None or _says(ctx, number):
        return ""
    return f"the modules of generation {number} are without it: `envmgr publish` makes them again"


def _says(ctx: Context, number: int) -> bool:
    """Return whether the modules of a generation say that they are loaded; False for one that is gone."""
    modules = ctx.prefix.generation(number) / "modules"
    first = next(modules.glob("*/[!.]*.lua"), None)
    try:
        return _HOOK in read_bytes(first, GENERATION) if first else modules.is_dir()
    except (OSError, InputError):
        return False


def nodes_with_users(ctx: Context) -> tuple[str, ...]:
    """Return the nodes on which users load modules; this host, too, if the site does not say which are login nodes."""
    sets, site = NodeSets(ctx.site, ctx.runner), ctx.site
    nodes = dict.fromkeys(sets.resolve(None) if site.groups else ())
    nodes |= dict.fromkeys(sets.resolve(site.login_nodes) if site.login_nodes else (os.uname().nodename,))
    return tuple(nodes)


class _Asking:
    """Sends one script to hosts, for one reading."""

    def __init__(self, ctx: Context, before: Usage, mark: str, now: datetime) -> None:
        self.mark = mark
        self._ctx, self._before, self._now = ctx, before, now

    def each(self, nodes: Sequence[str]) -> tuple[dict[str, LogAnswer], dict[str, str]]:
        """Let each node mark and read its own log."""
        hosts = [f"{log.name} {log.mark}" for log in self._before.nodes.values()]
        return self._ask(nodes, self._script(self._ctx.site.usage.logs, hosts, marks=1, send=True))

    def central(self, nodes: Sequence[str]) -> tuple[dict[str, LogAnswer], dict[str, str]]:
        """Let each node send a mark, and the host that has all logs read them."""
        marked, faults = self._ask(nodes, self._script((), (), marks=0, send=True))
        names = {node: answer.name for node, answer in marked.items() if not answer.fault}
        faults |= {node: answer.fault for node, answer in marked.items() if answer.fault}
        hosts = [f"{name} {self._mark_of(node)}" for node, name in names.items()]
        script = self._script(self._ctx.site.usage.logs, hosts, marks=len(names), send=False)
        host = self._ctx.site.usage.host or _HERE
        where = (_HERE,) if host == _HERE else NodeSets(self._ctx.site, self._ctx.runner).resolve(host)
        logs, silent = self._ask(where, script)
        why = "; ".join(f"{each}: {reason}" for each, reason in silent.items())
        answers = {}
        for node, name in names.items():
            found = next((each for each in logs.values() if each.hosts.get(name, (0, 0))[1]), None)
            found = found or next(iter(logs.values()), None)
            if found is None:
                faults[node] = f"its log was not read: {why}"
            else:
                answers[node] = replace(found, name=name)
        return answers, faults

    def _mark_of(self, node: str) -> str:
        log = self._before.nodes.get(node)
        return log.mark if log else "-"

    def _script(self, logs: Sequence[str], hosts: Sequence[str], *, marks: int, send: bool) -> str:
        ctx, today = self._ctx, self._now.date()
        entries = {*published_record(ctx).entries, *self._before.entries}
        given = assign(
            usage_nonce=self.mark,
            usage_marks=marks,
            usage_hosts="\n".join(hosts),
            usage_logs=" ".join(logs),
            usage_send="yes" if send else "no",
            usage_wait=_WAIT,
            usage_most=_MOST,
            usage_uids="yes" if ctx.site.usage.uids else "no",
            usage_first=(today - timedelta(days=DAYS)).isoformat(),
            usage_last=(today + timedelta(days=1)).isoformat(),
            usage_entries="\n".join(sorted(entries)),
        )
        return given + script_text(__file__, "logs.sh")

    def _ask(self, nodes: Sequence[str], script: str) -> tuple[dict[str, LogAnswer], dict[str, str]]:
        ctx, here = self._ctx, {_HERE, os.uname().nodename}
        answers, faults = dict[str, LogAnswer](), dict[str, str]()
        with ctx.reporter.stage("logs", total=len(nodes), unit="nodes") as stage:

            def take(reply: Reply) -> None:
                if reply.status == "answered":
                    answers[reply.node] = read_logs_answer(reply.text)
                else:
                    faults[reply.node] = f"{reply.status}: {reply.reason}"
                stage.update(len(answers) + len(faults), detail=reply.node)

            far = [node for node in nodes if node not in here]
            ask_nodes(far, script, site=ctx.site, via=ctx.way(), runner=ctx.runner, on_reply=take, limit=32 << 20)
            for node in (each for each in nodes if each in here):
                done = run_detached(
                    ["/bin/sh", "-s"],
                    stdin=script,
                    seconds=ctx.site.transport.node_timeout,
                    check=ctx.runner.raise_if_cancelled,
                )
                if done.returncode == 0:
                    answers[node] = read_logs_answer(done.output)
                else:
                    faults[node] = f"silent: the script did not end in {ctx.site.transport.node_timeout:g} s"
        return answers, faults
