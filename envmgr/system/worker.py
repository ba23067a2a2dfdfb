"""A worker's own side of `system/child.py`: one JSON request on stdin, JSON events on stdout, then `os._exit`.

It is a process of its own because rattler can crash at interpreter exit after success, and because importing it costs
0.2 s. It imports nothing heavy itself. It leads a process group. When stdin closes (the parent died, however), it kills
that group, so that nothing goes on writing. The last event is `done` or `error`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

Request = dict[str, Any]

_lock = threading.Lock()


def emit(event: str, **fields: Any) -> None:
    with _lock:  # callbacks come from rattler's threads
        _write({"event": event, **fields})


def _write(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event, ensure_ascii=True) + "\n")
    sys.stdout.flush()


def serve(work: Callable[[Request], None]) -> NoReturn:
    """Read the request, run it, report how it ended, exit. An error's `details` are fields of its event."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(0, 1 << 16)
        if not chunk:
            os._exit(1)
        line += chunk
    request = json.loads(line)
    # The thread starts after the request is read: it takes all bytes that come on stdin.
    _die_with_parent()
    status = 0
    last: dict[str, Any] = {"event": "done"}
    try:
        work(request)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent gets it as an event
        last = {"event": "error", "kind": type(error).__name__, "message": str(error), **getattr(error, "details", {})}
        status = 1
    _lock.acquire()  # for good: a thread of rattler's that comes late must not speak after the last event
    try:
        _write(last)
    finally:
        os._exit(status)


def cancel_on_sigterm() -> None:
    """Cancel the task that calls this at SIGTERM: half a download is removed then."""
    import asyncio

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _die_with_parent() -> None:
    """Wait for stdin's end in a thread; it comes when the parent has died for any reason."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()
