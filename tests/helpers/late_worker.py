"""A worker with a thread that speaks once the last event is out, as one of rattler's does on a busy machine.

An exit waits until that thread had its turn.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, NoReturn

from envmgr.system import worker

_told = threading.Event()


class _Stdout:
    """Notices the last event."""

    def __init__(self) -> None:
        self._real = sys.stdout

    def write(self, text: str) -> None:
        self._real.write(text)
        self._real.flush()
        if json.loads(text)["event"] in ("done", "error"):
            _told.set()

    def flush(self) -> None:
        self._real.flush()


def speak_late(request: dict[str, Any]) -> None:
    def late() -> None:
        _told.wait()
        worker.emit("linked", name="late")

    thread = threading.Thread(target=late, daemon=True)
    thread.start()
    leave = os._exit

    def leave_after_it(status: int) -> NoReturn:
        thread.join(1)  # it speaks at once, or never
        leave(status)

    os._exit = leave_after_it
    sys.stdout = _Stdout()  # type: ignore[assignment]
    if request.get("fails"):
        raise ValueError("no luck")


if __name__ == "__main__":
    worker.serve(speak_late)
