"""One local process per node (ssh, srun), many at once: clients of ClusterShell's event loop, whose defaults are not used.

ClusterShell's own ssh and exec clients keep every line of every node, look for line breaks in time that is quadratic where
there are none, and wait without end for a process that closed its output. These keep one bounded answer, and do not wait for
such a process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from ClusterShell.Engine.Engine import E_READ, E_WRITE, EngineTimer
from ClusterShell.Engine.EPoll import EngineEPoll
from ClusterShell.Event import EventHandler
from ClusterShell.Worker.EngineClient import EngineClient, EngineClientEOF
from ClusterShell.Worker.Worker import Worker

TICK = 0.1  # seconds between looks at clocks and at the cancel flag
_CHUNK = 1 << 16
_ERRORS = 1 << 13  # bytes kept of stderr: its end
_LINGER = 0.5  # seconds a process may live on after its answer, or after its output ended
_TIDYING = 3.3  # seconds that a node that began has to tidy up, after the end of its stdin; it gives its script three
_LEAVING = 1.3  # and a process whose node has answered, or was still being reached
_POLITE = 1.0  # seconds between SIGTERM and SIGKILL for a `gentle` one

# `dropped`: the loop itself ends, with an exception.
Ending = Literal["exit", "overflow", "timeout", "dropped"]


@dataclass(frozen=True, slots=True)
class Call:
    """What to run for a node. `whole` is a byte string with which the answer is whole; `most` bytes of output are taken.

    A `gentle` process first sees the end of its stdin when it has to end, then SIGTERM: srun, when told to end, kills all
    of its step at once, and then gives its allocation back.
    """

    node: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes
    whole: bytes
    most: int
    timeout: float
    gentle: bool = False


class Client(EngineClient):  # type: ignore[misc]
    """A running call. Its stdin stays open: its end tells the node that envmgr waits no more."""

    def __init__(self, call: Call, worker: Any, on_end: Callable[[Client], None]) -> None:
        super().__init__(worker, call.node, True, -1, False)
        self.call = call
        self.output = bytearray()
        self.errors = b""
        self.status: int | None = None
        self.ending: Ending = "exit"
        self.began = self.ended = time.time()
        self.started = time.monotonic()
        self.whole_at: float | None = None
        self._on_end = on_end
        self._told = False
        self._taken = 0
        self._sent = 0
        self._process: subprocess.Popen[bytes] | None = None

    def _start(self) -> Client:
        self.began, self.started = time.time(), time.monotonic()
        # A session of its own: the terminal's Ctrl-C is ours to pass on, and a ProxyCommand ends with its ssh.
        process = subprocess.Popen(
            self.call.argv,
            env=dict(self.call.env),
            bufsize=0,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._process = process
        for name, pipe, mask in (
            ("stdin", process.stdin, E_WRITE),
            ("stdout", process.stdout, E_READ),
            ("stderr", process.stderr, E_READ),
        ):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            # stdout alone decides the end: a kept ssh connection may hold stderr. We close the pipes, not the stream.
            self.streams.set_stream(name, pipe.fileno(), mask, retain=name == "stdout", closefd=False)
        return self

    def _handle_read(self, sname: str) -> None:
        try:
            chunk = os.read(self.streams[sname].fd, _CHUNK)
        except BlockingIOError:
            self._set_reading(sname)
            return
        if not chunk:
            raise EngineClientEOF
        self._set_reading(sname)
        self._taken += len(chunk)
        if sname == "stderr":
            self.errors = (self.errors + chunk)[-_ERRORS:]
        elif self.whole_at is None:  # what comes behind the answer is nothing to us
            self._take(chunk)
        if self._taken > self.call.most and self.whole_at is None:
            self.end("overflow")

    def _take(self, chunk: bytes) -> None:
        seen = len(self.output)
        self.output += chunk
        at = self.output.find(self.call.whole, max(0, seen - len(self.call.whole) - 64))
        if at >= 0 and self.output.find(b"\n", at + len(self.call.whole)) >= 0:
            self.whole_at = time.monotonic()

    def _handle_write(self, sname: str) -> None:
        data = memoryview(self.call.stdin)
        while self._sent < len(data):
            try:
                self._sent += os.write(self.streams[sname].fd, data[self._sent : self._sent + _CHUNK])
            except BlockingIOError:
                self._set_writing(sname)
                return
            except BrokenPipeError:
                return  # its exit status says why

    def look(self, now: float) -> None:
        """On each tick: an answered one that does not end, and one out of time."""
        if self.whole_at is not None:
            if now - self.whole_at > _LINGER:
                self.end("exit")
        elif now - self.started > self.call.timeout:
            self.end("timeout")

    def end(self, ending: Ending) -> None:
        self.ending = ending
        self._told = True
        self.abort()

    def _close(self, abort: bool, timeout: bool) -> None:  # noqa: ARG002 - ClusterShell's signature
        """The engine has let go of it: see that the process ends, and tell. Never waits long."""
        process = self._process
        assert process is not None
        if abort and not self._told:
            self.ending = "dropped"
        self._drain()
        if not abort:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LINGER)
        self.streams.clear()
        self.invalidate()
        tidies = bool(self.output) and self.whole_at is None
        self.worker.dying.end(process, gentle=self.call.gentle, tidies=tidies)
        self.status = process.returncode
        self.ended = time.time()
        self._on_end(self)

    def _drain(self) -> None:
        """What stderr still holds: the reason, when stdout ended first."""
        assert self._process is not None
        assert self._process.stderr is not None
        with suppress(OSError):
            while chunk := os.read(self._process.stderr.fileno(), _CHUNK):
                self.errors = (self.errors + chunk)[-_ERRORS:]
                if len(chunk) < _CHUNK:
                    return


@dataclass(slots=True)
class _Leaving:
    """A process that has to end; `term` and `kill` are when it gets these signals, by time.monotonic()."""

    process: subprocess.Popen[bytes]
    term: float
    kill: float

    def look(self, now: float) -> None:
        if now >= self.kill:
            _signal(self.process, signal.SIGKILL)
        elif now >= self.term:
            _signal(self.process, signal.SIGTERM)
            self.term = self.kill  # once


class Dying:
    """Processes that were told to end; some take a moment, and one in the kernel's hands (D state) is given up."""

    def __init__(self) -> None:
        self._left: list[_Leaving] = []

    def end(self, process: subprocess.Popen[bytes], *, gentle: bool, tidies: bool) -> None:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if process.poll() is None:
            term = time.monotonic() + (_TIDYING if tidies else _LEAVING)
            self._left.append(_Leaving(process, term, term + (_POLITE if gentle else 0)))
            self.look()

    def look(self) -> None:
        self._left = [leaving for leaving in self._left if leaving.process.poll() is None]
        for leaving in self._left:
            leaving.look(time.monotonic())

    def wait(self) -> None:
        """Until all have ended, but at most about five seconds for all of them together; three where no node has anything to tidy up."""
        until = max((leaving.kill for leaving in self._left), default=0) + _LINGER
        self.look()
        while self._left and time.monotonic() < until:
            time.sleep(0.01)
            self.look()
        for leaving in self._left:
            leaving.process.returncode = -signal.SIGKILL  # given up: no other code asks for it


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class Loop(EventHandler):  # type: ignore[misc]
    """ClusterShell's event loop with a tick. `on_tick` may raise: then all that runs is ended, and it comes out of `run`."""

    def __init__(self, on_tick: Callable[[], None]) -> None:
        super().__init__()
        self._engine = EngineEPoll({"fanout": 1 << 30, "debug": False})
        self._worker = Worker(None)
        self._worker.dying = self.dying = Dying()
        self._worker.task = None
        self._on_tick = on_tick
        self._timer = EngineTimer(0, TICK, False, self)
        self._engine.add_timer(self._timer)

    def start(self, call: Call, on_end: Callable[[Client], None]) -> Client:
        """From within `run` only."""
        client = Client(call, self._worker, on_end)
        self._engine.add(client)
        return client

    def run(self) -> None:
        try:
            self._engine.run(0)
        finally:
            self.dying.wait()
            self._engine.release()

    def stop(self) -> None:
        """Let `run` return when the last call has ended."""
        self._timer.invalidate()

    def ev_timer(self, _timer: EngineTimer) -> None:
        self.dying.look()
        self._on_tick()
