"""One local process per node (ssh, srun), many at once, on one event loop of asyncio.

The processes are `subprocess.Popen`, and asyncio watches their pipes. asyncio's own subprocesses need a thread for each
child on Python 3.11, and another process may hold the pipes of an ended one, as a kept ssh connection does. A client
keeps one bounded answer, and never waits long for its process.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Literal

from envmgr.system.processes import Leaving, close_pipes, give_up, write_some

TICK = 0.1  # seconds between looks at clocks and at the cancel flag
_CHUNK = 1 << 16
_ERRORS = 1 << 13  # bytes kept of stderr: its end
_LINGER = 0.5  # seconds a process may live on after its answer, or after its output ended
_TIDYING = 3.3  # seconds that a node that began may stay connected to tidy up, after the end of its stdin
_STEP_TIDYING = 11.0  # and a step, which ends with its srun: the node gives its script ten
_LEAVING = 1.3  # and a process whose node has answered, or was still being reached
_POLITE = 1.0  # seconds between SIGTERM and SIGKILL for a `gentle` one
_FIRST_POLL, _LAST_POLL = 0.0005, 0.02  # seconds between looks at a process that is about to end

# `dropped`: the loop itself ends, with an exception.
Ending = Literal["exit", "overflow", "timeout", "dropped"]


@dataclass(frozen=True, slots=True)
class Call:
    """A command for a node. With the bytes `whole` in it the answer is complete; `most` bytes of output are taken.

    A `gentle` process that has to end first sees the end of its stdin, then SIGTERM: srun, when asked to end, kills
    all of its step at once, and then gives its allocation back.
    """

    node: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes
    whole: bytes
    most: int
    timeout: float
    gentle: bool = False


class Client:
    """A running call. Its stdin stays open: its end tells the node that envmgr waits no more."""

    def __init__(self, call: Call, loop: asyncio.AbstractEventLoop, on_end: Callable[[Client], None]) -> None:
        self.call = call
        self.output = bytearray()
        self.errors = b""
        self.status: int | None = None
        self.ending: Ending = "exit"
        self.began, self.started = time.time(), time.monotonic()
        self.ended = self.began
        self.whole_at: float | None = None
        self._loop = loop
        self._on_end = on_end
        self._open = True
        self._taken = 0
        self._pending: bytes | memoryview = memoryview(call.stdin)  # a slice of bytes would copy a large script
        # A session of its own: the terminal's Ctrl-C is ours to pass on, and a ProxyCommand ends with its ssh.
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            call.argv, env=dict(call.env), bufsize=0, start_new_session=True, stdin=pipe, stdout=pipe, stderr=pipe
        )
        pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        self._stdin, self._stdout, self._stderr = map(_descriptor, pipes)
        self._send()
        if self._pending:  # most scripts fit into the pipe at once
            loop.add_writer(self._stdin, self._write)
        loop.add_reader(self._stdout, self._read_output)
        loop.add_reader(self._stderr, self._read_errors)

    def look(self, now: float) -> None:
        """End a call that has its answer and does not end by itself, and one that is out of time."""
        if self.whole_at is not None:
            if now - self.whole_at > _LINGER:
                self.end("exit")
        elif now - self.started > self.call.timeout:
            self.end("timeout")

    def end(self, ending: Ending) -> None:
        """Let go of the process now, whether or not it has ended; only the first call counts."""
        if not self._open:
            return
        self._open = False
        self.ending = ending
        self._read_errors()  # the reason may still be in the pipe when stdout ends first
        self._loop.remove_writer(self._stdin)
        self._loop.remove_reader(self._stdout)
        self._loop.remove_reader(self._stderr)
        close_pipes(self.process)
        self.status = self.process.poll()
        self.ended = time.time()
        self._on_end(self)

    @property
    def tidies(self) -> bool:
        """True for a node that began and has not answered: it may have to clean up."""
        return bool(self.output) and self.whole_at is None

    def _send(self) -> None:
        self._pending = write_some(self._stdin, self._pending)

    def _write(self) -> None:
        self._send()
        if not self._pending:
            self._loop.remove_writer(self._stdin)

    def _read_output(self) -> None:
        chunk = _read(self._stdout)
        if chunk is None:
            return
        if not chunk:  # stdout decides the end: a kept ssh connection may hold stderr
            self._loop.remove_reader(self._stdout)
            self._await_exit(time.monotonic() + _LINGER, _FIRST_POLL)
            return
        if self.whole_at is None:  # what comes behind the answer is nothing to us
            self._keep(chunk)
        self._count(chunk)

    def _read_errors(self) -> None:
        chunk = _read(self._stderr)
        if chunk:
            self.errors = (self.errors + chunk)[-_ERRORS:]
            self._count(chunk)
        elif chunk is not None:
            self._loop.remove_reader(self._stderr)

    def _count(self, chunk: bytes) -> None:
        self._taken += len(chunk)
        if self._taken > self.call.most and self.whole_at is None:
            self.end("overflow")

    def _keep(self, chunk: bytes) -> None:
        seen = len(self.output)
        self.output += chunk
        # Only the new end is searched: a long answer comes in many pieces.
        at = self.output.find(self.call.whole, max(0, seen - len(self.call.whole) - 64))
        # The status follows the mark in the same line, which may still be cut here.
        if at >= 0 and self.output.find(b"\n", at + len(self.call.whole)) >= 0:
            self.whole_at = time.monotonic()

    def _await_exit(self, until: float, pause: float) -> None:
        """Look for the exit status for a short while; the other nodes do not wait for it."""
        if self._open and self.process.poll() is None and time.monotonic() < until:
            self._loop.call_later(pause, self._await_exit, until, min(2 * pause, _LAST_POLL))
        else:
            self.end("exit")


def _descriptor(pipe: IO[bytes] | None) -> int:
    assert pipe is not None
    os.set_blocking(pipe.fileno(), False)
    return pipe.fileno()


def _read(descriptor: int) -> bytes | None:
    """Return what a pipe holds now; None where that is nothing yet, b"" at its end."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None


class Dying:
    """Processes that have to end; some take a moment, and one in the kernel's hands (D state) is given up."""

    def __init__(self) -> None:
        self._left: list[Leaving] = []

    def add(self, client: Client) -> None:
        if client.process.poll() is None:
            gentle = client.call.gentle
            term = time.monotonic() + ((_STEP_TIDYING if gentle else _TIDYING) if client.tidies else _LEAVING)
            self._left.append(Leaving(client.process, term, term + (_POLITE if gentle else 0)))
            self.look()

    def look(self) -> None:
        self._left = [leaving for leaving in self._left if leaving.process.poll() is None]
        for leaving in self._left:
            leaving.look(time.monotonic())

    def wait(self) -> None:
        """Wait until all have ended: as long as nodes have to tidy up, and two seconds more at most."""
        until = max((leaving.kill for leaving in self._left), default=0) + _LINGER
        self.look()
        while self._left and time.monotonic() < until:
            time.sleep(0.01)
            self.look()
        for leaving in self._left:
            give_up(leaving.process)


class Loop:
    """An event loop with a tick. `on_tick` and an `on_end` may raise: then all that runs is ended, and `run` raises it.

    It takes no signal and watches no child, so that it runs in any thread.
    """

    def __init__(self, on_tick: Callable[[], None]) -> None:
        self._loop = asyncio.new_event_loop()
        self._on_tick = on_tick
        self._running: dict[Client, Callable[[Client], None]] = {}
        self._ended: asyncio.Queue[Client] = asyncio.Queue()
        self._dying = Dying()
        self._stopped = False

    def start(self, call: Call, on_end: Callable[[Client], None]) -> Client:
        """Start a call, from within `run` only. `on_end` follows, never before this returns."""
        client = Client(call, self._loop, self._let_go)
        self._running[client] = on_end
        return client

    def run(self) -> None:
        serving = self._loop.create_task(self._serve())
        try:
            self._loop.run_until_complete(serving)
        finally:
            self._drop()
            self._dying.wait()
            serving.cancel()  # it still runs where a KeyboardInterrupt came between two of its steps
            self._loop.run_until_complete(asyncio.gather(serving, return_exceptions=True))
            self._loop.close()

    def stop(self) -> None:
        """Let `run` return when the last call has ended."""
        self._stopped = True

    def _let_go(self, client: Client) -> None:
        self._dying.add(client)
        self._ended.put_nowait(client)

    async def _serve(self) -> None:
        tick = 0.0
        while self._running or not self._stopped:
            if (now := time.monotonic()) >= tick:
                self._dying.look()
                # Counted from now: after a pause of this host, ticks that were missed do not come all at once.
                tick = now + TICK
                self._on_tick()
                continue
            try:
                async with asyncio.timeout(tick - now):
                    client = await self._ended.get()
            except TimeoutError:
                continue
            self._running.pop(client)(client)

    def _drop(self) -> None:
        """End what still runs, after an exception. What had ended, and nobody knows of it, counts as dropped too."""
        for client, on_end in list(self._running.items()):
            client.end("dropped")
            client.ending = "dropped"
            on_end(client)
        self._running.clear()
