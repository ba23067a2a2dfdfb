"""A lock that another user holds for this process: root must not make files in a prefix that is the build user's.

Run as a program, it takes the lock that its argument names, says so, and holds it until its stdin ends.
"""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.system.locks import file_lock

_POLL = 0.1  # seconds
_END = 5.0  # seconds


@contextmanager
def held_by(
    become: Sequence[str], path: Path, *, on_wait: Callable[[str], None], check: Callable[[], None]
) -> Iterator[None]:
    """Hold an exclusive lock on `path`, through a child that begins with the words `become`; see `file_lock`.

    Raises:
        EnvmgrError: `lock-not-held` if the child cannot take it.
    """
    argv = [*become, sys.executable, "-I", "-m", __name__, str(path)]
    # A session of its own: Ctrl-C at the terminal must not free the lock before our own work has ended.
    child = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,  # a line that waits in a buffer of ours is one that `select` does not see
    )
    held = False
    try:
        assert child.stdout is not None
        while True:
            ready, _, _ = select.select([child.stdout], [], [], _POLL)
            check()
            line = child.stdout.readline().decode(errors="replace").rstrip("\n") if ready else " "
            if held := line == "held":
                break
            if not line:
                said = child.communicate()[1].decode(errors="replace").strip().splitlines()
                raise EnvmgrError("lock-not-held", f"cannot lock {path}", context=said[-1:])
            if line != " ":
                on_wait(line)
        yield
    finally:
        if held:  # its stdin ends, and it takes its mark away; the mark of a killed one makes others wait
            with suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=_END)
        child.kill()
        child.communicate()


def _main() -> None:
    def say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    with file_lock(Path(sys.argv[1]), on_wait=say):
        say("held")
        sys.stdin.read()


if __name__ == "__main__":
    _main()
