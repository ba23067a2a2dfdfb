"""One script on many nodes: never more than the site's fan-out at once, one reply for every node, always in time."""

from __future__ import annotations

import os
import resource
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, Interrupted, ending
from envmgr.nodes import slurm, ssh, tool_env
from envmgr.nodes.envelope import Reply, ScriptAnswer, Status, begun, end_mark, unwrap, wrap
from envmgr.nodes.sets import require_node_names
from envmgr.system.run import Runner
from envmgr.wording import size_text

if TYPE_CHECKING:
    from envmgr.nodes.clients import Call, Client, Loop

NODES_OWN = 5.0  # seconds after envmgr that a node itself ends processes that envmgr no longer waits for
_AROUND = 1 << 20  # bytes that a node may print in addition to its answer: banners


def ask_nodes(
    nodes: Sequence[str],
    script: str,
    *,
    site: Site,
    via: Literal["ssh", "slurm"],
    runner: Runner,
    on_reply: Callable[[Reply], None],
    timeout: float | None = None,
    deadline: float | None = None,
    limit: int = 4 << 20,
    fresh: bool = False,
    user: str | None = None,
    scratch_nonce: str | None = None,
    job: str | None = None,
) -> None:
    """Run `script` by /bin/sh on every node; `on_reply` gets each node's one reply, in this thread, as the node ends.

    `timeout` (one node, from its own start) and `deadline` (everything) are wall-clock seconds, the site's if None; it
    returns within the deadline and about 2 s. `limit` is bytes of one answer. `fresh`: no kept ssh connection is used.
    `user`: the login user on the node (ssh), or the user whose step it is (slurm, as root). `scratch_nonce` marks the
    answers and names the Slurm jobs of this run; random if None. `job` (slurm): steps of this job, which has the nodes.

    Nothing is left running, here or on a node, however it ends; if this process dies, the nodes notice and end it too.

    Raises:
        Interrupted: `runner.cancel` was set, or Ctrl-C.
        InputError: `bad-node-set` for a name that cannot be one.
        EnvmgrError: `command-missing`: no ssh, no srun here.
    """
    todo = list(dict.fromkeys(nodes))
    require_node_names(todo)
    if not todo:
        return
    nonce = scratch_nonce or secrets.token_hex(8)
    node_limit = site.transport.node_timeout if timeout is None else timeout
    whole_limit = site.transport.deadline if deadline is None else deadline
    most = min(node_limit, whole_limit) + NODES_OWN
    sent = wrap(script, nonce, limit=limit, timeout=most, hard=via == "ssh").encode("utf-8", "surrogateescape")
    way: Connector
    if via == "slurm":
        way = slurm.SlurmWay(site, runner, nonce, user=user, timeout=node_limit, deadline=whole_limit, job=job)
    else:
        way = SshWay(site, user=user, fresh=fresh or len(todo) > site.transport.fanout)
    fan = Fan(site, runner, on_reply, nonce, deadline=whole_limit)

    def call(node: str) -> Call | Reply:
        from envmgr.nodes.clients import Call

        argv = way.argv(node)
        if isinstance(argv, str):
            return unreachable(node, argv)
        return Call(node, argv, way.env, sent, end_mark(nonce), limit + _AROUND, node_limit, gentle=via == "slurm")

    try:
        way.prepare(todo)
        fan.ask(todo, call, way)
    finally:
        way.finish()


class Connector(Protocol):
    """A transport: what to run for a node, and what it means when that ends without an answer."""

    env: dict[str, str]

    def prepare(self, nodes: Sequence[str]) -> None: ...

    def argv(self, node: str) -> tuple[str, ...] | str:
        """Return the command, or the reason why there is no command: the node is unreachable."""

    def explain(self, client: Client, answer: ScriptAnswer, *, begun: bool) -> tuple[Status, str]:
        """Return status and reason for a command that ended by itself, without a complete answer."""

    def again(self, client: Client) -> tuple[str, ...] | None:
        """Return another command for the node, if the first failed for a reason on this side."""

    def finish(self) -> None: ...


class SshWay:
    def __init__(self, site: Site, *, user: str | None, fresh: bool) -> None:
        self.env = tool_env()
        self._transport = site.transport
        self._user = user
        keep = not fresh and site.transport.persist > 0
        self._socket = ssh.control_socket(os.environ.get("XDG_RUNTIME_DIR")) if keep else None

    def prepare(self, nodes: Sequence[str]) -> None:
        """Do nothing: ssh needs no preparation."""

    def argv(self, node: str) -> tuple[str, ...] | str:
        return ssh.command(self._transport, node, user=self._user, socket=self._socket)

    def explain(self, client: Client, answer: ScriptAnswer, *, begun: bool) -> tuple[Status, str]:
        said = ssh.ssh_reason(client.errors)
        if begun:
            return "silent", answer.reason
        # ssh ends with 255 for its own errors, and else with the status of the remote command.
        if client.status == 255:
            return "unreachable", said or "the connection was closed without a word"
        if answer.reason != "no answer":
            return "silent", answer.reason
        return "silent", said or f"no answer: {_ended(client.status)}"

    def again(self, client: Client) -> tuple[str, ...] | None:
        """Return the command with its own connection, if a kept connection may have closed while it was taken."""
        if self._socket is None or client.status != 255 or client.output or ssh.is_about_connecting(client.errors):
            return None
        return ssh.command(self._transport, client.call.node, user=self._user, socket=None)

    def finish(self) -> None:
        """Do nothing: kept connections end by themselves, after `persist` seconds."""


def _ended(status: int | None) -> str:
    return "it did not end" if status is None else ending(status)


class _DeadlineOver(Exception):  # noqa: N818 - our own way out of the event loop
    pass


class Fan:
    """The nodes still to ask, those being asked, and the clocks. `hook`, called on each tick, says if more is to
    come.
    """

    def __init__(
        self, site: Site, runner: Runner, on_reply: Callable[[Reply], None], nonce: str, *, deadline: float
    ) -> None:
        self.nonce = nonce
        # Each call has three pipes.
        self.width = min(site.transport.fanout, _descriptors() // 3)
        self.running: dict[str, Client] = {}
        self.aside: list[Client] = []
        self.todo: deque[str] = deque()
        self.hook: Callable[[], bool] = lambda: False
        self.more = False
        self._runner = runner
        self._on_reply = on_reply
        self._deadline = deadline
        self._start = time.monotonic()
        self._over: list[Client] = []
        self._retried: set[str] = set()

    def ask(self, nodes: Sequence[str], call: Callable[[str], Call | Reply], way: Connector) -> None:
        """Run until every node has its reply. Raises Interrupted, and what `on_reply` raises, once all has ended."""
        from envmgr.nodes.clients import Loop

        self.todo.extend(nodes)
        self._call, self._way = call, way
        self._loop: Loop = Loop(self._tick)
        try:
            self._loop.run()
        except _DeadlineOver:
            pass
        except KeyboardInterrupt:
            raise Interrupted from None
        except OSError as error:
            raise EnvmgrError(
                "command-missing",
                "cannot run a command for every node",
                context=str(error),
                hint="a smaller `transport.fanout` in site.yaml needs fewer processes and files",
            ) from None
        for client in self._over:
            self._on_reply(self._judge(client))
        for node in self.todo:
            self._on_reply(unreachable(node, f"not asked: the deadline of {self._deadline:g} s was over"))

    def _tick(self) -> None:
        self._runner.raise_if_cancelled()
        if time.monotonic() - self._start > self._deadline:
            raise _DeadlineOver
        now = time.monotonic()
        for client in [*self.running.values(), *self.aside]:
            client.look(now)
        self.more = self.hook()
        self.fill()
        self._stop_when_done()

    def fill(self) -> None:
        while self.todo and len(self.running) < self.width:
            made = self._call(self.todo[0])
            self.todo.popleft()
            if isinstance(made, Reply):
                self._on_reply(made)
            else:
                self.begin(made)

    def begin(self, call: Call) -> None:
        """Ask a node now; its reply follows."""
        self.running[call.node] = self._loop.start(call, self._ended)

    def launch(self, call: Call, on_end: Callable[[Client], None]) -> None:
        """Run something that is no node's answer; `on_end` is not called when everything has to end."""

        def ended(client: Client) -> None:
            self.aside.remove(client)
            if client.ending != "dropped":
                on_end(client)

        self.aside.append(self._loop.start(call, ended))

    def _ended(self, client: Client) -> None:
        node = client.call.node
        self.running.pop(node, None)
        if client.ending == "dropped":
            self._over.append(client)
            return
        if client.ending == "exit" and node not in self._retried and (argv := self._way.again(client)) is not None:
            self._retried.add(node)
            self.running[node] = self._loop.start(replace(client.call, argv=argv), self._ended)
            return
        self._on_reply(self._judge(client))
        self.fill()
        self._stop_when_done()

    def _stop_when_done(self) -> None:
        if not (self.running or self.aside or self.todo or self.more):
            self._loop.stop()

    def _judge(self, client: Client) -> Reply:
        answer = unwrap(client.output, self.nonce)
        if answer.status == "answered":
            return _reply(client, "answered", answer.reason, answer.text)
        started = begun(client.output, self.nonce)
        took = client.ended - client.began
        if client.ending == "overflow":
            what = "its answer has no end" if started else "no answer among it"
            return _reply(client, "silent", f"cut off after {size_text(len(client.output))} of output: {what}")
        if client.ending in {"timeout", "dropped"}:
            half = "no answer" if answer.reason.startswith(("no answer", "half an answer: 0 ")) else answer.reason
            over = f": the deadline of {self._deadline:g} s was over" if client.ending == "dropped" else ""
            return _reply(client, "silent", f"{half} in {client.call.timeout if not over else took:.3g} s{over}")
        return _reply(client, *self._way.explain(client, answer, begun=started))


def _reply(client: Client, status: Status, reason: str, text: str = "") -> Reply:
    return Reply(client.call.node, status, text, reason, client.began, client.ended)


def unreachable(node: str, reason: str) -> Reply:
    """Return the reply of a node that is not asked."""
    now = time.time()
    return Reply(node, "unreachable", "", reason, now, now)


def _descriptors() -> int:
    """Return the number of files that this process may still open, with a reserve for everything else here."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(3, soft - 64)
