"""A command that may hang for good, on a mount whose server is gone: looked at for a while, then left behind.

Such a process cannot be killed, and a parent that waits for it hangs too. Its streams are files (in memory: no disk is full), so that
it holds none of ours.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from envmgr.system.children import end_child, give_up, in_memory, signal_group
from envmgr.system.run import clean_env

_POLL = 0.005  # seconds
_GRACE = 0.5


@dataclass(frozen=True, slots=True)
class Detached:
    """`returncode` is None for a command that was left behind; `output` is what it had written by then."""

    returncode: int | None
    output: str
    error: str


def run_detached(
    argv: Sequence[str],
    *,
    seconds: float,
    stdin: str = "",
    check: Callable[[], None] = lambda: None,
    env: Mapping[str, str] | None = None,
) -> Detached:
    """Run `argv` in `/`, for `seconds` of wall-clock time at most; `check` is called in between and may raise.

    What has not ended by then is told to, and half a second later killed or left behind.
    """
    with in_memory(stdin) as given, in_memory() as out, in_memory() as err:
        environment = dict(clean_env() if env is None else env)
        process = subprocess.Popen(
            argv, stdin=given, stdout=out, stderr=err, cwd="/", env=environment, start_new_session=True
        )
        end = time.monotonic() + seconds
        try:
            while process.poll() is None and time.monotonic() < end:
                check()
                time.sleep(_POLL)
        finally:
            code = process.poll()
            if code is None:  # it may have files to tidy up; one that hangs in the kernel hears nothing
                end_child(process, group=True, grace=_GRACE, wait=0)
            signal_group(process.pid, signal.SIGKILL)
            if code is None:
                give_up(process)
        return Detached(code, _read(out), _read(err))


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "surrogateescape")
